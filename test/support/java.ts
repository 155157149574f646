/**
 * ClickHouse's Java drivers for tests: one jar with all of them and the one they log with, pinned, below `.java/`. `npm run java` fetches it from
 * Maven Central; tests that need it name the command when it is missing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { unusableJava } from '../../infra/kafka/java.ts';

const root = dirname(dirname(import.meta.dirname));
export const javaFolder = join(root, '.java');
/** The last version whose jar holds the client, the JDBC driver and the JDBC driver of version 1. */
const driversVersion = '0.9.8';
const loggingVersion = '2.0.17';
const artifacts = [
  `com.clickhouse:clickhouse-jdbc:${driversVersion}:jar:all`,
  `org.slf4j:slf4j-api:${loggingVersion}:jar`,
];
const copier = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy';
const jars = [`clickhouse-jdbc-${driversVersion}-all.jar`, `slf4j-api-${loggingVersion}.jar`].map((name) =>
  join(javaFolder, name),
);

/** The drivers, or the reason why there are none. */
export type DriversForTests = { readonly classPath: string } | { readonly missing: string };

/** The drivers that exist now: fetches nothing. */
export function driversForTests(): DriversForTests {
  const unusable = unusableJava();
  if (unusable !== undefined) return { missing: unusable };
  if (jars.every((jar) => existsSync(jar))) return { classPath: jars.join(delimiter) };
  return { missing: 'the Java drivers of ClickHouse are not there; "npm run java" fetches them' };
}

/** Fetches the drivers unless they are there. */
export function prepareDrivers(say: (line: string) => void): DriversForTests {
  const already = driversForTests();
  if ('classPath' in already || unusableJava() !== undefined) return already;
  say(`fetching ${artifacts.join(', ')} (only needed once)`);
  const options = ['--batch-mode', '--quiet', `-Dmaven.repo.local=${join(javaFolder, 'repository')}`];
  for (const artifact of artifacts) {
    const { status, error, stdout, stderr } = spawnSync(
      'mvn',
      [...options, copier, `-Dartifact=${artifact}`, `-DoutputDirectory=${javaFolder}`],
      { cwd: import.meta.dirname, encoding: 'utf8' },
    );
    if (error !== undefined)
      return { missing: 'there is no Maven (mvn), which fetches the Java drivers of ClickHouse' };
    if (status !== 0) return { missing: `the Java drivers could not be fetched:\n${stdout}${stderr}` };
  }
  return driversForTests();
}
