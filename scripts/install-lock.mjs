/**
 * A lock between processes, made of a directory: the process that creates it holds the lock and puts a file named after
 * its process id and the time of its start inside. The lock of a process that died is taken over, also when its id belongs
 * to another process by now: in a container, every first process has the id 1. Taking over cannot hit the wrong lock,
 * because it removes only the dead owner's file and then the directory, and a directory with another file in it cannot be
 * removed.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const pollMs = 200;
/** An owner writes its file at once; a directory that stays empty for longer belongs to a dead process. */
const emptyMs = 5000;

/** Directories that this process has locked. */
const held = new Set();

/**
 * Runs `work` while holding the lock at `directory`, and releases it when `work` resolves or rejects.
 * @throws the error of the file system when the lock of a dead process cannot be removed
 */
export async function withLock(directory, say, work) {
  const mine = join(directory, ownerName(process.pid));
  for (let waited = 0; !take(directory, mine); waited += pollMs) {
    if (removeIfDead(directory)) continue;
    if (waited === 10 * pollMs) say(`waiting for another process to finish installing (lock: ${directory})`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  held.add(directory);
  try {
    return await work();
  } finally {
    held.delete(directory);
    quietly(() => unlinkSync(mine));
    quietly(() => rmdirSync(directory));
  }
}

function take(directory, mine) {
  try {
    mkdirSync(directory);
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
  return quietly(() => writeFileSync(mine, ''));
}

function removeIfDead(directory) {
  let owners = [];
  let age = 0;
  if (
    !quietly(() => {
      owners = readdirSync(directory);
      age = Date.now() - statSync(directory).mtimeMs;
    })
  )
    return true;
  const [owner] = owners;
  if (owner === undefined) return age > emptyMs && removed(() => rmdirSync(directory));
  if (isAlive(owner, directory)) return false;
  return removed(() => unlinkSync(join(directory, owner))) && removed(() => rmdirSync(directory));
}

function ownerName(pid) {
  const started = startOf(pid);
  return started === undefined ? String(pid) : `${pid}.${started}`;
}

/** When the process was started, in ticks since the start of the system; undefined where the system does not tell. */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')')).split(' ')[20];
  } catch {
    return undefined;
  }
}

function isAlive(owner, directory) {
  const pid = Number.parseInt(owner, 10);
  if (startOf(process.pid) !== undefined) return owner === ownerName(pid) && startOf(pid) !== undefined;
  if (pid === process.pid) return held.has(directory);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** False when another process was faster. */
function removed(remove) {
  try {
    remove();
    return true;
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTEMPTY') return false;
    throw error;
  }
}

/** False instead of an exception: another process was faster. */
function quietly(action) {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
