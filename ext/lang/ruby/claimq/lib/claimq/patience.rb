# frozen_string_literal: true

module Claimq
  # What a worker does about a lock that lasts longer than its timeout, a full
  # disk, and a file that is not there any more.  A part of Loop.
  module Patience
    private

    # What the block returns.  While it fails for a reason that waiting cures,
    # that is logged, and it is done again after a pause, which grows.  A worker
    # that is stopping does so for `grace` seconds; then: nil.
    def patiently(what, grace = 0)
      pause = 0.1
      begin
        yield
      rescue StandardError => e
        check_file
        raise unless Claimq.waiting_cures?(e)

        now = Claimq.now
        if @stopping && now >= (last ||= now + grace)
          @log.call("#{what}: #{e.message}: given up")
          return
        end
        @log.call("#{what}: #{e.message}; again in #{pause} s")
        loop do
          sleep(0.05)
          break if @stopping || Claimq.now > now + pause
        end
        pause = [2 * pause, 5].min
        retry
      end
    end

    # A name that was mistyped is not to become a new database.
    def check_there
      name = @path.to_s
      return if @create || File.exist?(name) || name.empty?
      return if name.start_with?(':memory:', 'file:')

      raise "there is no file #{name}: create it with Claimq.open, or give " \
            'create: true'
    end

    # The file is open.  A handler may change the directory later.
    def remember_file(path)
      @name = File.expand_path(path)
      @opened = identity
    end

    # Which file has the name: nil if none has it, [] if that is unknown.
    def identity
      found = File.stat(@name)
      [found.dev, found.ino]
    rescue Errno::ENOENT
      nil
    rescue SystemCallError
      []
    end

    # SQLite would go on with a file that nobody else can see.
    def check_file
      return if @opened.nil? || @opened.empty?
      return if [@opened, []].include?(identity)

      raise "#{@name} was removed or replaced while the worker used it"
    end
  end
end
