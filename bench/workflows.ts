/** CPU time of the workflow of a request without guardrails: `node bench/workflows.ts`, through scripts/run.mjs. */
import { policyOfWorkflow } from '../src/commands/exchange/policy.ts';
import { WorkflowDirectory } from '../src/commands/workflows/directory.ts';
import type { WorkflowVersion } from '../src/commands/workflows/workflow.ts';

const requests = 1_000_000;
const on = { cache: true, audit: true, usage: true, budget: true, guardrails: true, failover: true };

function version(number: number): WorkflowVersion {
  const scope = number === 0 ? {} : { userPath: `/team-${number}` as const };
  const payload = { schemaVersion: 2, features: { ...on, guardrails: number !== 0 }, steps: [] } as const;
  return { id: `id-${number}`, version: 1, name: `w${number}`, payloadSha256: '', scope, payload };
}

/** What the steps `selectPolicy` and `record` add to a request: the look-up, and the workflow in its first event. */
function run(workflows: number): number {
  const active = new Map(
    Array.from({ length: workflows }, (_, number) => {
      const workflow = version(number);
      return [workflow.id, { workflow, createdAt: 0, revision: 0 }] as const;
    }),
  );
  const stored = { active, places: new Map(), version: 1 };
  const guardrails = { inForce: { version: 1 }, prepared: () => ({ problem: 'none' }) };
  const directory = new WorkflowDirectory({ stored: { state: stored }, guardrails, switches: on });
  const policies = new WeakMap<object, ReturnType<typeof policyOfWorkflow>>();
  let bytes = 0;
  const started = process.cpuUsage();
  for (let index = 0; index < requests; index += 1) {
    const compiled = directory.select(`/team-${index % 2_000}/alpha`, 'openai', 'gpt-4o');
    if (compiled === undefined) throw new Error('there is a global workflow');
    let policy = policies.get(compiled);
    if (policy === undefined) {
      policy = policyOfWorkflow(compiled, { capture: 'full' });
      policies.set(compiled, policy);
    }
    bytes += JSON.stringify(policy.workflow).length;
  }
  const { user, system } = process.cpuUsage(started);
  if (bytes === 0) throw new Error('nothing was written');
  return (user + system) / requests;
}

for (const workflows of [1, 1_000]) {
  run(workflows);
  const figures = Array.from({ length: 5 }, () => run(workflows)).sort((one, other) => one - other);
  console.log(`${workflows} workflows: ${figures[2]?.toFixed(2)} µs CPU per request (median of 5 rounds)`);
}
