// Prisma's schema engine beside a queue: what `prisma db push`, `db pull` and
// `migrate dev` ask of it.  The command wants an engine that it fetches from a
// server of Prisma's; this is the same engine as npm has it, for WebAssembly,
// over better-sqlite3.
//
//     node prisma.mjs app.db push|force|pull|migrate [external tables, as JSON]
import fs from "node:fs";
import {PrismaBetterSqlite3} from "@prisma/adapter-better-sqlite3";
import {bindMigrationAwareSqlAdapterFactory} from "@prisma/driver-adapter-utils";
// The package exports its start only, which Node 20 cannot load.
import * as wasm from "../node_modules/@prisma/schema-engine-wasm/schema_engine_bg.js";

const [, , file, what, external] = process.argv;
const content = `datasource db {
  provider = "sqlite"
}

model orders {
  id   Int     @id
  name String?
}
`;

// It asks for names in double quotes, which better-sqlite3 takes for columns.
function open(connect) {
  return async () => {
    const db = await connect();
    const query = db.queryRaw.bind(db);
    db.queryRaw = (asked) => query({
      ...asked, sql: asked.sql.replace(/ name = "([^"]*)"/g, " name = '$1'"),
    });
    return db;
  };
}

globalThis.PRISMA_WASM_PANIC_REGISTRY = {set_message: console.error};
const code = new URL("../node_modules/@prisma/schema-engine-wasm/"
  + "schema_engine_bg.wasm", import.meta.url);
const {instance} = await WebAssembly.instantiate(
  fs.readFileSync(code), {"./schema_engine_bg.js": wasm});
wasm.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

const adapter = new PrismaBetterSqlite3({url: `file:${file}`});
for (const name of ["connect", "connectToShadowDb"]) {
  adapter[name] = open(adapter[name].bind(adapter));
}
const engine = await wasm.SchemaEngine.new(
  {datamodels: [["schema.prisma", content]]}, () => {},
  bindMigrationAwareSqlAdapterFactory(adapter));
const schema = {files: [{path: "schema.prisma", content}]};
const filters = {
  externalTables: JSON.parse(external ?? "[]"), externalEnums: [],
};

async function pull() {
  const {schema: {files}} = await engine.introspect({
    schema, baseDirectoryPath: ".", force: true, compositeTypeDepth: 0,
    namespaces: null,
  });
  console.log(files[0].content.match(/^model \w+/gm).join("\n"));
}

async function push(force) {
  const {executedSteps, warnings} = await engine.schemaPush(
    {schema, force, filters});
  console.log(`${executedSteps} steps, ${warnings.length} warnings`);
}

// migrate dev: looks for what was changed elsewhere, and asks to reset the
// database then; writes a migration; applies it, as migrate deploy does.
async function migrate() {
  const migrationsList = {
    baseDir: "/migrations", shadowDbInitScript: "", migrationDirectories: [],
    lockfile: {path: "migration_lock.toml", content: null},
  };
  const {action} = await engine.devDiagnostic({migrationsList, filters});
  console.log(action.tag);
  if (action.tag === "reset") return;
  const made = await engine.createMigration({
    draft: false, migrationName: "orders", migrationsList, schema, filters});
  console.log(made.migrationScript.match(/^(CREATE|DROP|ALTER).*/gm).join("\n"));
  migrationsList.lockfile.content = 'provider = "sqlite"\n';
  migrationsList.migrationDirectories.push({
    path: made.generatedMigrationName,
    migrationFile: {
      path: "migration.sql", content: {tag: "ok", value: made.migrationScript},
    },
  });
  await engine.applyMigrations({migrationsList, filters});
}

await {
  pull, migrate, push: () => push(false), force: () => push(true),
}[what]();
process.exit(0);
