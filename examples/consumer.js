// A member of the group "transfers": brings events of accounts into a table, each exactly once.
//
//   node consumer.js URL     start as many as you like; needs the package pg
const { Client } = require('pg');

const GROUP = 'transfers';
const MEMBER = `node-${process.pid}`;

// The next batch: rows with token, number, stream and payload.  The query is a transaction of its own:
// when it returns, the batch is leased to us, and the attempt is counted.
async function fetch(client) {
  const { rows } = await client.query(
    `SELECT token, global_sequence, stream, data
     FROM howdah.fetch($1, 100, member => $2, lease => '2 seconds')`, [GROUP, MEMBER]);
  return rows;
}

// What the events cause, and the ack, in one transaction.
async function handle(client, batch) {
  await client.query('BEGIN');
  for (const event of batch) {
    await client.query('INSERT INTO transfers (global_sequence, account, amount) VALUES ($1, $2, $3)',
      [event.global_sequence, event.stream, event.data.amount]);
  }
  const { rows } = await client.query('SELECT howdah.ack($1, $2) AS ours', [GROUP, batch[0].token]);
  // Not ours: the lease ran out, and another member has these events.
  await client.query(rows[0].ours ? 'COMMIT' : 'ROLLBACK');
}

function notification(client) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 1000);
    client.once('notification', () => { clearTimeout(timer); resolve(); });
  });
}

async function main() {
  const client = new Client({ connectionString: process.argv[2] });
  await client.connect();
  await client.query(`SELECT howdah.subscribe($1, pattern => 'account.*')`, [GROUP]);
  const { rows } = await client.query('SELECT quote_ident(howdah.subscription_arm($1)) AS channel', [GROUP]);
  await client.query(`LISTEN ${rows[0].channel}`);
  for (;;) {
    let batch = await fetch(client);
    if (batch.length === 0) { // ask for a notification, look once more, and only then sleep
      await client.query('SELECT howdah.subscription_arm($1)', [GROUP]);
      const ring = notification(client);
      batch = await fetch(client);
      if (batch.length === 0) await ring;
    }
    if (batch.length > 0) await handle(client, batch);
  }
}

main().catch((error) => { console.error(error.message); process.exit(1); });
