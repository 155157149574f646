/** The machine's own Java. */
import { spawnSync } from 'node:child_process';

/** Kafka 4 needs it, and programs in one source file that import jars. */
const oldestJava = 17;

/** The reason why the machine's own Java cannot be used; undefined when it can. */
export function unusableJava(): string | undefined {
  const { status, stderr } = spawnSync('java', ['-version'], { encoding: 'utf8' });
  if (status !== 0) return `there is no Java (${oldestJava} or newer)`;
  const version = Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0);
  return version >= oldestJava ? undefined : `java is ${version}; ${oldestJava} or newer is needed`;
}
