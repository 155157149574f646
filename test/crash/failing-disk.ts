/**
 * Loaded into a gateway before its program (`--import`): lets file operations on its log fail, as long as the file that
 * `FAILING_DISK` names says so. `full`: nothing can be written or created (ENOSPC); `sync`: no sync succeeds (EIO).
 */
import fs from 'node:fs';
import { sep } from 'node:path';

const control = process.env['FAILING_DISK'] ?? '';
const ofTheLog = new Set<number>();
const { openSync, closeSync, writeSync, fdatasync, fdatasyncSync, readFileSync } = fs;

function fails(kind: 'full' | 'sync'): boolean {
  try {
    return readFileSync(control, 'utf8') === kind;
  } catch {
    return false;
  }
}

function failure(code: 'ENOSPC' | 'EIO'): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: injected by the crash test`), { code });
}

fs.openSync = (...args: Parameters<typeof openSync>) => {
  const isOfTheLog = String(args[0]).includes(`${sep}log${sep}`);
  const creates = typeof args[1] === 'number' && (args[1] & fs.constants.O_CREAT) !== 0;
  if (isOfTheLog && creates && fails('full')) throw failure('ENOSPC');
  const fd = openSync(...args);
  if (isOfTheLog) ofTheLog.add(fd);
  return fd;
};

fs.closeSync = (fd) => {
  ofTheLog.delete(fd);
  closeSync(fd);
};

fs.writeSync = new Proxy(writeSync, {
  apply(write, self, args) {
    if (ofTheLog.has(args[0]) && fails('full')) throw failure('ENOSPC');
    return Reflect.apply(write, self, args);
  },
});

fs.fdatasync = new Proxy(fdatasync, {
  apply(sync, self, args) {
    if (!ofTheLog.has(args[0]) || !fails('sync')) return Reflect.apply(sync, self, args);
    setImmediate(() => args[1](failure('EIO')));
  },
});

fs.fdatasyncSync = (fd) => {
  if (ofTheLog.has(fd) && fails('sync')) throw failure('EIO');
  fdatasyncSync(fd);
};
