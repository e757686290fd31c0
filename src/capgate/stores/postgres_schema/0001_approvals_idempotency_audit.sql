-- Times are microseconds since 1970, UTC. What never changes stands in `body`, as JSON.

CREATE TABLE capgate_approvals (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    capability_id TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    status TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    quorum BIGINT NOT NULL,
    consumed_by TEXT,
    body TEXT NOT NULL,
    -- Over the record and its decisions: as it stands, and as it will once it has expired.
    digest TEXT NOT NULL,
    digest_expired TEXT NOT NULL
);

CREATE INDEX capgate_approvals_by_status ON capgate_approvals (status, seq);
CREATE INDEX capgate_approvals_by_capability ON capgate_approvals (capability_id, seq);
CREATE INDEX capgate_approvals_by_actor ON capgate_approvals (actor_id, seq);
CREATE INDEX capgate_approvals_due ON capgate_approvals (expires_at)
    WHERE status IN ('pending', 'approved');

CREATE TABLE capgate_decisions (
    approval_id TEXT NOT NULL REFERENCES capgate_approvals (id),
    place BIGINT NOT NULL,
    approver TEXT NOT NULL,
    approved BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (approval_id, place)
);

-- Nobody counts twice towards a quorum.
CREATE UNIQUE INDEX capgate_decisions_once ON capgate_decisions (approval_id, approver)
    WHERE approved = 1;

-- Executions that spent an approval and have not ended yet, as far as the audit knows.
CREATE TABLE capgate_executions (
    execution_id TEXT PRIMARY KEY,
    approval_id TEXT NOT NULL REFERENCES capgate_approvals (id),
    since BIGINT NOT NULL
);

CREATE TABLE capgate_idempotency (
    key TEXT PRIMARY KEY,
    input_hash TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    since BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- When the handler was about to be entered; NULL before that.
    started_at BIGINT,
    state TEXT NOT NULL,
    approval_id TEXT,
    outcome TEXT
);

CREATE INDEX capgate_idempotency_due ON capgate_idempotency (expires_at);
CREATE INDEX capgate_idempotency_held ON capgate_idempotency (execution_id)
    WHERE state <> 'ended';

CREATE TABLE capgate_audit (
    stream TEXT NOT NULL,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (stream, seq)
);

-- The last record of each chain, so that a record missing at its end shows too.
CREATE TABLE capgate_audit_heads (
    stream TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
