// Emits events with the CloudEvents SDK's own HTTP bindings to the URL that is named, and prints what is answered.
const { CloudEvent, HTTP } = require("cloudevents");

async function send(url, message) {
  const answer = await fetch(url, { method: "POST", headers: message.headers, body: message.body });
  return { status: answer.status, body: await answer.text(), sent: message.headers };
}

async function main() {
  const url = process.argv[2] + "/v1/events";
  const make = (n) => new CloudEvent({ id: "ce-" + n, type: "order.created", source: "/shop", subject: "order-" + n,
    time: "2026-01-31T09:30:00.000Z",    data: { n, text: "naïve ☃" }, datacontenttype: "application/json" });
  console.log(JSON.stringify({
    binary: await send(url, HTTP.binary(make(1))),
    structured: await send(url, HTTP.structured(make(2))),
    again: await send(url, HTTP.structured(make(2))),
    batch: await send(url, { headers: { "content-type": "application/cloudevents-batch+json" },
      body: JSON.stringify([make(3), make(4)]) }),
  }));
}

main();
