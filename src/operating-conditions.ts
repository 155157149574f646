/** Errors that are conditions of operation, and no defects of the program: an operator needs what and where, and no stack. */
import { isObject } from './json/is-object.ts';

/** Of the system: errno(3), and the resolver. */
const systemCodes: ReadonlySet<unknown> = new Set([
  ...['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'EIO', 'ENOENT', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE', 'ENODEV', 'ESTALE'],
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN'],
]);
/** Of SQLite: PERM, BUSY, READONLY, IOERR, FULL, CANTOPEN. The higher bits are details. */
const sqliteCodes = new Set([3, 5, 8, 10, 13, 14]);

/** Whether the error, or one of its causes, is such a condition. */
export function isOperatingCondition(error: unknown): boolean {
  if (!isObject(error)) return false;
  const { code, errcode, cause } = error;
  if (systemCodes.has(code) || (typeof errcode === 'number' && sqliteCodes.has(errcode & 0xff))) return true;
  return isOperatingCondition(cause);
}
