-- request.sql: the answers of calls that can be repeated.

-- Answers of calls that gave a request, so that they can be repeated: of which
-- function, with which first argument, by which owner; and when.
CREATE TABLE {{S}}.claimq_request(
  request  TEXT NOT NULL PRIMARY KEY,
  func     TEXT NOT NULL,
  scope    TEXT,
  owner    TEXT,
  at_ms    INTEGER NOT NULL,
  answer   ANY                          -- of a claim: a JSON array of claim
                                        -- ids, each with those it displaced
) STRICT, WITHOUT ROWID;

CREATE INDEX {{S}}.claimq_request_by_time ON claimq_request(at_ms);
