# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = 'claimq'
  spec.version = '@VERSION@'
  spec.platform = '@PLATFORM@'
  spec.summary = 'Queues of leased, fenced work in ordinary SQLite tables'
  spec.authors = ['the authors of claimq']
  spec.license = 'MIT'
  spec.required_ruby_version = '>= 3.0'
  spec.files = Dir['lib/**/*', 'exe/*', 'README.md', 'LICENSE']
  spec.bindir = 'exe'
  spec.executables = ['claimq-worker']
  spec.add_dependency 'sqlite3', '>= 1.4'
end
