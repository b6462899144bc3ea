#!/usr/bin/env python3
"""A handler of howdah subscribe --exec-lines and howdah work --exec-lines: writes each line down, and answers.

  handler.py global_sequence|id FILE
"""
import json
import sys

key = sys.argv[1]
with open(sys.argv[2], "a", encoding="utf-8") as seen:
    for line in sys.stdin:
        seen.write(line)
        seen.flush()
        given = json.loads(line)
        if isinstance(given.get("data"), dict) and given["data"].get("fail"):
            answer = {"nack": given[key], "error": "failed on purpose"}
            if key == "id":
                answer["final"] = True
        else:
            answer = {"ack": given[key]}
        print(json.dumps(answer), flush=True)
