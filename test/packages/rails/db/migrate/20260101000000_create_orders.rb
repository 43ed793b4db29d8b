class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    create_table(:orders) { |table| table.integer :number }
  end
end
