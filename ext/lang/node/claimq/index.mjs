// The same as index.cjs, for import.
import claimq from './index.cjs';

export const {getLoadablePath, load, open, transaction, submit, code, Worker,
  Outbox, Session, Contest, Pause, Release, Retry, Reject} = claimq;
export default claimq;
