import { describe, expect, it } from 'vitest';
import { canonicalSha256 } from '../../src/commands/canonical-json.ts';
import { type WorkflowCommand, workflowDecider } from '../../src/commands/workflows/changes.ts';
import { payloadJson, type WorkflowDraft } from '../../src/commands/workflows/workflow.ts';
import { managedDefault } from '../../src/commands/workflows/workflow-input.ts';
import { workflowCreated, workflowDeactivated } from '../../src/events/catalogue/workflow.ts';
import { specify } from '../support/decider-spec.ts';
import { admin, draft, steps } from './made.ts';

const spec = specify(workflowDecider);
const nothing = { prepared: (name: string) => ({ problem: `there is no guardrail '${name}'` }) };

const create = (id: string, of: WorkflowDraft): WorkflowCommand => ({
  kind: 'create',
  id,
  draft: of,
  guardrails: nothing,
  context: admin,
});
const deactivate = (id: string): WorkflowCommand => ({ kind: 'deactivate', id, context: admin });
const manage = (id: string, of: WorkflowDraft): WorkflowCommand => ({
  kind: 'manage default',
  id,
  draft: of,
  context: admin,
});

const created = (
  id: string,
  version: number,
  of: WorkflowDraft,
  more: { supersedes?: string; managedDefault?: true } = {},
) =>
  workflowCreated.create(
    { id, version, ...of, payloadSha256: canonicalSha256(payloadJson(of.payload)), ...more },
    admin,
  );

const team = draft({ userPath: '/team' });
const global = draft({ name: 'ours' });

describe('a workflow', () => {
  it('has version 1 at first, and supersedes the active version afterwards', () => {
    spec
      .given()
      .when(create('1', team))
      .then([created('1', 1, team)]);
    spec
      .given(created('1', 1, team))
      .when(create('2', team))
      .then([created('2', 2, team, { supersedes: '1' })]);
  });

  it('counts versions on after a deactivation, and supersedes nothing then', () => {
    spec
      .given(created('1', 1, team), workflowDeactivated.create({ id: '1' }, admin))
      .when(create('2', team))
      .then([created('2', 2, team)]);
  });

  it('is deactivated while it is active', () => {
    const history = [created('1', 1, team), created('2', 2, team, { supersedes: '1' })];
    spec
      .given(...history)
      .when(deactivate('2'))
      .then([workflowDeactivated.create({ id: '2' }, admin)]);
    spec
      .given(...history)
      .when(deactivate('1'))
      .then({ status: 400, param: 'id' });
    spec
      .given(...history, workflowDeactivated.create({ id: '2' }, admin))
      .when(deactivate('2'))
      .then({ status: 400, param: 'id' });
  });

  it('is not deactivated when it is the global one', () => {
    spec
      .given(created('1', 1, global))
      .when(deactivate('1'))
      .then({ status: 400, message: expect.stringContaining('global') });
  });

  it('is refused with an unknown guardrail, also when its guardrails are off', () => {
    const features = { ...team.payload.features, guardrails: false };
    for (const payload of [steps('a'), { ...steps('a'), features }]) {
      spec
        .given()
        .when(create('1', draft({ payload })))
        .then({ status: 400, param: 'workflow_payload.steps', message: "There is no guardrail 'a'." });
    }
  });

  it('has a hash of its payload alone, the same for the same payload', () => {
    const [one] = [workflowDecider.decide(create('1', team), workflowDecider.initial)];
    const [other] = [workflowDecider.decide(create('2', global), workflowDecider.initial)];
    const hash = (decided: typeof one) =>
      Array.isArray(decided) ? decided.map(({ data }) => data.payloadSha256).join() : '';
    expect(hash(one)).toMatch(/^[0-9a-f]{64}$/);
    expect(hash(one)).toBe(hash(other));
  });
});

describe('the default workflow', () => {
  const empty = managedDefault([]);
  const guarded = managedDefault([{ ref: 'a', phase: 'prompt', step: 0 }]);

  it('is created when there is no global one', () => {
    spec
      .given()
      .when(manage('1', empty))
      .then([created('1', 1, empty, { managedDefault: true })]);
  });

  it('has guardrails only when there are steps', () => {
    expect(empty.payload.features).toEqual({
      cache: true,
      audit: true,
      usage: true,
      budget: true,
      guardrails: false,
      failover: true,
    });
    expect(guarded.payload.features.guardrails).toBe(true);
  });

  it('is kept as long as the configuration is the same, and follows it', () => {
    const before = created('1', 1, empty, { managedDefault: true });
    spec.given(before).when(manage('2', empty)).then([]);
    spec
      .given(before)
      .when(manage('2', guarded))
      .then([created('2', 2, guarded, { managedDefault: true, supersedes: '1' })]);
  });

  it('does not replace a global workflow of an administrator', () => {
    spec
      .given(created('1', 1, empty, { managedDefault: true }), created('2', 2, global, { supersedes: '1' }))
      .when(manage('3', guarded))
      .then([]);
  });
});
