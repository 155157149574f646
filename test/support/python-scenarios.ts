/** Runs the scenarios of a Python program against a gateway, for tests that check the result of each. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import type { SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { type PythonForTests, pythonForTests, pythonPrograms } from './python.ts';

/** One line that a program prints: a scenario, and what it returned or how it failed. */
interface Outcome {
  readonly scenario: string;
  readonly seen?: unknown;
  /** The traceback of an exception that the scenario did not expect. */
  readonly failed?: string;
}

export interface PythonScenarios {
  /** The file in `test/clients/python/`. */
  readonly program: string;
  /** The environment of the program, besides `PATH` and `HOME`. Called before it is started. */
  readonly variables: () => Readonly<Record<string, string>>;
  /** The provider behind a model: the one that a scenario's `fault(model, …)` is for. */
  readonly providerOf?: (model: string) => SimulatedProvider;
}

/** The result of a scenario. Throws with its traceback when it failed. */
export type Seen = (scenario: string, parameter?: string) => unknown;

/**
 * One process runs all scenarios of the program before the tests: importing the packages takes longer than they do.
 * Every scenario must be checked by a test. Without the packages all tests are skipped, with a line that states why.
 */
export function describeScenarios(title: string, given: PythonScenarios, tests: (seen: Seen) => void): void {
  const python = pythonForTests();
  if ('missing' in python) {
    console.warn(`${title} is skipped: ${python.missing}`);
    describe.skip(title, () => tests(() => undefined));
    return;
  }
  const outcomes = new Map<string, Outcome>();
  const unseen = new Set<string>();
  const seen: Seen = (scenario, parameter) => {
    const name = parameter === undefined ? scenario : `${scenario}[${parameter}]`;
    const outcome = outcomes.get(name);
    if (outcome === undefined) throw new Error(`${given.program} did not run ${name}`);
    unseen.delete(name);
    if (outcome.failed !== undefined) throw new Error(`${name}: ${outcome.failed}`);
    return outcome.seen;
  };
  describe(title, () => {
    beforeAll(async () => {
      const faults = given.providerOf === undefined ? undefined : await startFaults(given.providerOf);
      const variables = { ...given.variables(), ...(faults === undefined ? {} : { FAULTS_URL: faults.url }) };
      for (const outcome of await run(python, given.program, variables)) {
        outcomes.set(outcome.scenario, outcome);
        unseen.add(outcome.scenario);
      }
      faults?.close();
    }, 100_000);
    tests(seen);
    it('has no scenario without a test', () => expect([...unseen]).toEqual([]));
  });
}

function run(
  { interpreter }: Extract<PythonForTests, { interpreter: string }>,
  program: string,
  variables: Readonly<Record<string, string>>,
): Promise<Outcome[]> {
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, NO_PROXY: '*', PYTHONUTF8: '1', ...variables };
  return new Promise((done, fail) => {
    const options = { env, timeout: 90_000, maxBuffer: 16 * 1024 * 1024 };
    execFile(interpreter, [join(pythonPrograms, program)], options, (error, stdout, stderr) => {
      const lines = stdout.split('\n').filter((line) => line.startsWith('{"scenario"'));
      const outcomes = lines.map((line): Outcome => JSON.parse(line));
      if (error === null) return done(outcomes);
      const last = outcomes.at(-1)?.scenario ?? 'its start';
      fail(new Error(`${program} failed after ${last}: ${stderr || error.message}`));
    });
  });
}

/** A program sets the next fault of the provider behind a model through this server. */
async function startFaults(providerOf: (model: string) => SimulatedProvider) {
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const { model, fault }: { model: string; fault: Fault } = JSON.parse(Buffer.concat(pieces).toString());
    providerOf(model).control.next(fault);
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  return {
    url: `http://127.0.0.1:${address.port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
