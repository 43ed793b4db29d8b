// A whole cycle of Knex's migrations beside a queue.  Prints a line for each
// step: the columns of orders, and how many jobs there are.
//
//     node knex.mjs app.db migrations
import knex from "knex";

const [, , filename, directory] = process.argv;
const db = knex({
  client: "better-sqlite3", connection: {filename}, useNullAsDefault: true,
  migrations: {directory, loadExtensions: [".mjs"]},
});

async function say(step) {
  const columns = await db("orders").columnInfo();
  const [{n}] = await db("claimq_job").count({n: "*"});
  console.log([step, ...Object.keys(columns), n].join(" "));
}

try {
  await db.migrate.up();
  await say("up");
  await db.transaction(async (trx) => {         // the order and its job
    await trx("orders").insert({id: 1});
    await trx("claimq_job").insert({lane: "mail", payload: "order 1"});
  });
  await db.migrate.up();
  await say("up");
  await db.migrate.down();
  await say("down");
  await db.migrate.rollback({}, true);
  await say("rollback");
  await db.migrate.latest();
  await say("latest");
} finally {
  await db.destroy();
}
