/**
 * The jars of a Kafka broker: what `pom.xml` lists, fetched by Maven into a folder of `.kafka/` for each state of that
 * file.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withLock } from '../../scripts/install-lock.mjs';
import { unusableJava } from './java.ts';

const pom = join(import.meta.dirname, 'pom.xml');
const cache = join(dirname(dirname(import.meta.dirname)), '.kafka');
const copier = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';

/** The class path of a broker, or the reason why there is none. */
export type KafkaJars = { readonly classPath: string } | { readonly missing: string };

/** The jars that exist now: fetches nothing. */
export function kafkaJars(): KafkaJars {
  const unusable = unusableJava();
  if (unusable !== undefined) return { missing: unusable };
  const folder = jarsFolder();
  if (existsSync(folder)) return { classPath: join(folder, '*') };
  return { missing: 'the jars of Kafka are not there; "npm run kafka:prepare" fetches them' };
}

/** Fetches the jars unless they are there. Any number of processes may call it at once: one fetches, the others wait. */
export async function prepareKafka(say: (line: string) => void): Promise<KafkaJars> {
  const already = kafkaJars();
  if ('classPath' in already || unusableJava() !== undefined) return already;
  mkdirSync(cache, { recursive: true });
  return withLock(join(cache, 'lock'), say, async () => {
    const fetched = kafkaJars();
    return 'classPath' in fetched ? fetched : fetchJars(say);
  });
}

function fetchJars(say: (line: string) => void): KafkaJars {
  // Those of earlier lists, and what was not finished.
  for (const name of readdirSync(cache)) {
    if (name !== 'lock') rmSync(join(cache, name), { recursive: true, force: true });
  }
  say(`fetching the jars of ${pom} with Maven, about 45 MB (only needed once for each state of that file)`);
  const unfinished = join(cache, 'unfinished');
  const repository = join(cache, 'repository');
  const { status, error, stdout, stderr } = spawnSync(
    'mvn',
    [
      ...['--batch-mode', '--quiet', '--file', pom, `-Dmaven.repo.local=${repository}`],
      ...[copier, '-DincludeScope=runtime', `-DoutputDirectory=${unfinished}`],
    ],
    { cwd: cache, encoding: 'utf8' },
  );
  rmSync(repository, { recursive: true, force: true });
  if (error !== undefined) return { missing: 'there is no Maven (mvn), which fetches the jars of Kafka' };
  if (status !== 0) return { missing: `the jars of Kafka could not be fetched: ${reasonOf(stdout + stderr, status)}` };
  renameSync(unfinished, jarsFolder());
  return kafkaJars();
}

/** Maven prints the reason first, then what to read about it. */
function reasonOf(output: string, status: number | null): string {
  const line = output.split('\n').find((one) => one.includes('[ERROR]'));
  return line?.replace(/^.*\[ERROR\]\s*/, '') ?? `Maven ended with ${status}\n${output}`;
}

function jarsFolder(): string {
  return join(cache, createHash('sha256').update(readFileSync(pom)).digest('hex').slice(0, 16));
}
