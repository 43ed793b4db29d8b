# frozen_string_literal: true

# What the tests that are written in Ruby share: they are Minitest's, and a line
# is printed for each of them (see tcl/test/python.tcl).
require 'minitest'

srand(1)
Minitest.seed = 1 if Minitest.respond_to?(:seed=) # the order of the tests
LIMIT = 300 # seconds for what takes time

module Support
  # Prints the results.
  class Reporter < Minitest::AbstractReporter
    def record(result)
      puts line(result)
      $stdout.flush
    end

    def report
      puts 'end'
    end

    private

    def line(result)
      name = result.name.delete_prefix('test_')
      return "ok #{name}" if result.passed?

      text = result.failures.map(&:message).join(' | ')
      return "SKIPPED #{name}: #{text}" if result.skipped?

      place = result.failures.first.backtrace.first(3).join(' | ')
      text = text[0, 1500].gsub(/\s*\n\s*/, ' | ')
      "failed #{name}: #{text} | #{place}"
    end
  end

  module_function

  def run(*cases)
    reporter = Reporter.new
    cases.each do |kind|
      kind.runnable_methods.each do |name|
        reporter.record(Minitest.run_one_method(kind, name))
      end
    end
    reporter.report
  end

  # Until it answers something that is true; returns that.
  def wait
    till = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
    until (found = yield)
      if Process.clock_gettime(Process::CLOCK_MONOTONIC) > till
        raise "still not true after #{LIMIT} s"
      end

      sleep(0.02)
    end
    found
  end
end
