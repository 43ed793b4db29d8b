class CreateClaimq < ActiveRecord::Migration[6.1]
  def up
    execute 'SELECT claimq_init()'
  end

  def down
    Claimq::ActiveRecord.drop(connection)
  end
end
