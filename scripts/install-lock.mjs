/**
 * A lock between processes, made of a directory: the process that creates it holds the lock and puts a file named after
 * its process id inside. The lock of a process that died is taken over. Taking over cannot hit the wrong lock, because
 * it removes only the dead owner's file and then the directory, and a directory with another file in it cannot be
 * removed.
 */
import { mkdirSync, readdirSync, rmdirSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const pollMs = 200;
/** An owner writes its file at once; a directory that stays empty for longer belongs to a dead process. */
const emptyMs = 5000;

/** Runs `work` while holding the lock at `directory`, and releases it when `work` resolves or rejects. */
export async function withLock(directory, say, work) {
  const mine = join(directory, String(process.pid));
  for (let waited = 0; !take(directory, mine); waited += pollMs) {
    if (removeIfDead(directory)) continue;
    if (waited === 10 * pollMs) say(`waiting for another process to finish installing (lock: ${directory})`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  try {
    return await work();
  } finally {
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
  if (owner === undefined) return age > emptyMs && quietly(() => rmdirSync(directory));
  if (isAlive(Number(owner))) return false;
  return quietly(() => unlinkSync(join(directory, owner))) && quietly(() => rmdirSync(directory));
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
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
