# Active Record copies a table of SQLite to take a column away.
class NoteOnOrders < ActiveRecord::Migration[6.1]
  def change
    add_column :orders, :note, :string
  end
end
