export const up = (knex) => knex.schema.createTable("orders", (table) => {
  table.integer("id").primary();
  table.text("name");
  table.text("old");
});

export const down = (knex) => knex.schema.dropTable("orders");
