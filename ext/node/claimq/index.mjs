// The same as index.cjs, for import.
import claimq from './index.cjs';

export const {getLoadablePath, load, open, transaction, code, Worker, Retry,
  Reject} = claimq;
export default claimq;
