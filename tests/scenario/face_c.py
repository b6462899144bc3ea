"""The C library: the program DRIVE says each step to it."""
import os
import subprocess

import scenario


class Face:
    def __init__(self, store):
        self.process = subprocess.Popen([os.environ["DRIVE"], store], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(timeout=60) == 0

    def run(self, do, arguments):
        line = scenario.compact({"do": do, "with": arguments}) + "\n"
        self.process.stdin.write(line.encode("utf-8"))
        self.process.stdin.flush()
        said = self.process.stdout.readline().decode("utf-8")
        assert said, "the driver has ended: %s" % line[:500]
        answer = scenario.parse(said)
        if "unsayable" in answer:
            raise scenario.Unsayable("C takes no value of another kind for %s" % answer["unsayable"])
        if answer["verdict"] != "ok":
            raise scenario.Refusal(answer.pop("verdict"), answer.pop("message"), **answer)
        return answer["answer"]
