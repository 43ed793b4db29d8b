// The tables of drizzle.
import {integer, sqliteTable, text} from "drizzle-orm/sqlite-core";

export const orders = sqliteTable("orders", {
  id: integer("id").primaryKey(),
  name: text("name"),
});
