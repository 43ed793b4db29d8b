# The jobs of the shop.  What they have done is in a file, a line for each.
module Jobs
  class Base < ApplicationJob
    private

    def say(word)
      File.write(ENV.fetch('SAID'), "#{word}\n", mode: 'a')
    end

    # Only the first attempt, whose worker is killed.
    def hang(file)
      first = !File.exist?(file)
      File.write(file, 'begun')
      sleep(3600) if first
    end
  end

  class Say < Base
    def perform(word)
      say(word)
    end
  end

  class Mail < Say
    queue_as :mail
    queue_with_priority 5
  end

  class Fail < Base
    def perform
      say("fail #{executions}")
      raise KeyError, 'user_id'
    end
  end

  class Retried < Fail
    retry_on KeyError, wait: 0, attempts: 3
    after_enqueue { |_| say(states) if executions.positive? }

    def states
      sql = 'SELECT state FROM claimq_job ORDER BY job_id'
      ActiveRecord::Base.connection.select_values(sql).join(' ')
    end
  end

  class Discarded < Fail
    discard_on KeyError
  end

  class Refuse < Base
    def perform
      raise Claimq::Reject, 'never'
    end
  end

  # The order and the end of the job are one transaction.
  class Ship < Base
    def perform(number, file)
      Order.transaction do
        Order.create!(number: number)
        hang(file)
        Claimq.current_job.complete
      end
    end
  end

  class ShipPlainly < Base
    def perform(number, file)
      hang(file)
      Order.create!(number: number)
    end
  end

  # Waits for the other one.
  class Meet < Base
    def perform(mine, other)
      File.write(mine, 'here')
      sleep(0.02) until File.exist?(other)
      say('met')
    end
  end

  # The first time it is given back after its step.  A step that belongs to a
  # transaction is undone with it.
  class Steps < Base
    def perform
      job = Claimq.current_job
      number = job.step('one') { say('one') && 41 }
      Order.transaction do
        job.step('undone') { say('undone') }
        raise ActiveRecord::Rollback
      end
      Order.create!(number: 1) && raise(Claimq::Release) if Order.none?
      say(number + 1)
    end
  end

  if ActiveJob.const_defined?(:Continuable)
    class Continued < Base
      include ActiveJob::Continuable

      def perform(file)
        step(:first) { say('first') }
        step(:second, start: 1) do |step|
          while step.cursor <= 4
            say("second #{step.cursor}")
            hang(file) if step.cursor == 3
            step.advance!
          end
        end
        step(:third) { say('third') }
      end
    end
  end
end
