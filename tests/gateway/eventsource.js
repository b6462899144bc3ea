// Listens with npm's EventSource until COUNT events have come; prints the number of each as it comes.
const { EventSource } = require("eventsource");

const [url, count] = process.argv.slice(2);
const source = new EventSource(url);
let seen = 0;

function take(event) {
  process.stdout.write(JSON.parse(event.data).global_sequence + "\n");
  if (++seen === Number(count)) {
    source.close();
    process.exit(0);
  }
}

source.onopen = () => process.stderr.write("open\n");
for (const type of ["message", "load.early", "load.late"])
  source.addEventListener(type, take);
