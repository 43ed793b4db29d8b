# agent.tcl: durable steps in each language's package: a part of the story.
#
#     source tcl/test/story.tcl
#
# The handlers of test/packages/story.* do this:
#
#     agent NAME N    N steps s0, s1, ...: each function appends the name of its
#                     step to NAME.log, by one write, and gives its number.
#                     Returns the sum.
#                     STORY_FUNCTIONS in the environment is how many functions
#                     the process may call: the next one waits, before it does
#                     anything, for the process to be killed.
#     fan LANE N      a step submits "part 1" to "part N" to LANE, all of which
#                     are waited for.  Returns the sum of their results.
#     part I          returns I
#     ask ID          waits for the job ID and returns its result
#
# The agent has 1,000 steps and is killed by kill -9: a hundred times where a
# process starts quickly, else fifteen times, or five times with a second engine
# of the same language; in `make soak` always a hundred times.  STORY_FUNCTIONS
# has it live that often, however slow whoever kills it is.  The moment is
# random, by a seed: a number of functions is called first, and up to two
# milliseconds go by.

set S(steps) 1000

# The lines that functions have written.
proc functions_called {} {
  if {![file exists a.log]} return
  set fd [open a.log]
  set text [read $fd]
  close $fd
  return [split [string trim $text] \n]
}

# How many steps of a job are stored; raises unless they are the first ones,
# with their values.
proc steps_stored {job} {
  db eval {
    SELECT count(*) AS n, coalesce(max(value+0), -1) AS last,
           coalesce(sum(name <> 's' || value), 0) AS wrong
      FROM claimq_steps WHERE job_id=$job
  } break
  if {$wrong || $last != $n-1} {
    error "stored: [db eval {SELECT name, value FROM claimq_steps}]"
  }
  return $n
}

# One life of the agent, which is killed after a number of functions:
# its first is that of the first step that is not stored, each of the others is
# that of the next step, and all steps are stored whose function came before the
# last.
proc agent_life {job functions delay} {
  global S
  set stored [steps_stored $job]
  set before [llength [functions_called]]
  set pid [start_worker agent 3600000 1]
  if {$functions == 0} {
    until_sql {SELECT state='active' FROM claimq_job WHERE job_id=$job}
  } else {
    until_true {[llength [functions_called]] >= $before+$functions} \
      "$functions functions more"
  }
  after $delay
  cq_kill $pid KILL
  await_end $pid
  agent_did $job $stored [lrange [functions_called] $before end]
  db eval {SELECT claimq_revoke($job)}
}

# Raises unless the steps whose functions were called are those that follow the
# stored ones, and all of them are stored now, but for the last.
proc agent_did {job stored called} {
  set n $stored
  foreach name $called {
    if {$name ne "s$n"} {error "$stored were stored, and it did $called"}
    incr n
  }
  set now [steps_stored $job]
  if {$now > $n || $now < $n-1 || $now < $stored} {
    error "$stored were stored, it did $called, and $now are stored"
  }
}

proc story_agent {} {
  global S
  set kills $S(kills)
  step a-stored-step-never-runs-again,-killed-$kills-times {
    set job [db one "SELECT claimq_submit('agent', 'agent a $S(steps)')"]
    set ::env(STORY_FUNCTIONS) [expr {$S(steps)/($kills+1)}]
    expr {srand(273)}
    for {set i 0} {$i < $kills} {incr i} {
      agent_life $job [expr {int(rand()*$::env(STORY_FUNCTIONS))}] \
        [expr {int(rand()*3)}]
    }
    unset ::env(STORY_FUNCTIONS)
    set stored [steps_stored $job]
    set before [llength [functions_called]]
    set pid [start_worker agent 3600000 1]
    until_sql {SELECT state='completed' FROM claimq_job WHERE job_id=$job}
    agent_did $job $stored [lrange [functions_called] $before end]
    list [end_worker $pid] [steps_stored $job] \
      [llength [lsort -unique [functions_called]]] \
      [expr {[llength [functions_called]] <= $S(steps)+$kills}] \
      [db one {SELECT result+0=499500 FROM claimq_job WHERE job_id=$job}]
  } [list {{exit 0} {begun 1}} $S(steps) $S(steps) 1 1]
  catch {unset ::env(STORY_FUNCTIONS)}
}

# The parent waits in the file: its worker holds nothing and does something else
# meanwhile.
proc story_fan {} {
  step a-parent-waits-for-100-children-without-a-lease {
    set job [db one {SELECT claimq_submit('fan', 'fan parts 100')}]
    set pid [start_worker fan 30000 1]
    until_sql {SELECT state='blocked' FROM claimq_job WHERE job_id=$job}
    set other [db one {SELECT claimq_submit('fan', 'other')}]
    until_sql {SELECT state='completed' FROM claimq_job WHERE job_id=$other}
    set held [db eval {
      SELECT count(*) FROM claimq_job WHERE lane IN ('fan', 'parts')
         AND (state='active' OR owner IS NOT NULL)
    }]
    set second [start_worker parts 30000 5]
    until_sql {SELECT state='completed' FROM claimq_job WHERE job_id=$job}
    list $held [end_worker $pid] [end_worker $second] {*}[db eval {
      SELECT result+0=5050, attempt_index FROM claimq_job WHERE job_id=$job
    }]
  } {0 {{exit 0} {begun 3}} {{exit 0} {begun 100}} 1 0}
}

# Somebody answers by claimq_resolve: before the job that asks is begun, and
# while it waits.
proc story_approval {} {
  step an-approval-comes-before-and-after-who-waits-for-it {
    set early [db one {SELECT claimq_submit('approvals', 'may I?')}]
    set late [db one {SELECT claimq_submit('approvals', 'and now?')}]
    db eval {SELECT claimq_resolve($early, 'yes')}
    db eval {SELECT claimq_submit('asks', 'ask ' || $early),
                    claimq_submit('asks', 'ask ' || $late)}
    set pid [start_worker asks 30000 1]
    until_sql {SELECT count(*)=2 FROM claimq_job
                WHERE lane='asks' AND state IN ('completed', 'blocked')}
    set between [db eval {SELECT state, result FROM claimq_job
                           WHERE lane='asks' ORDER BY job_id}]
    db eval {SELECT claimq_resolve($late, 'no')}
    until_sql {SELECT count(*)=2 FROM claimq_job
                WHERE lane='asks' AND state='completed'}
    list $between [end_worker $pid] [db eval {
      SELECT result, attempt_index FROM claimq_job
       WHERE lane='asks' ORDER BY job_id
    }]
  } {{completed yes blocked {}} {{exit 0} {begun 3}} {yes 0 no 0}}
}
