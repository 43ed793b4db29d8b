// Knex makes a table anew to change a column of it.
export const up = (knex) => knex.schema.alterTable("orders", (table) => {
  table.dropColumn("old");
  table.text("name").defaultTo("?").alter();
  table.integer("total");
});

export const down = (knex) => knex.schema.alterTable("orders", (table) => {
  table.dropColumn("total");
  table.text("old");
});
