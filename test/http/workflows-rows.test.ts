import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { Refusal } from '../../src/commands/refusal.ts';
import { readVersion } from '../../src/commands/workflows/changes.ts';
import { explainWorkflow } from '../../src/commands/workflows/directory.ts';
import {
  guardrailBody,
  guardrailInput,
  guardrailRow,
  guardrailRows,
  guardrailTypeRow,
  guardrailTypeRows,
  workflowGuardrailRow,
  workflowGuardrailRows,
} from '../../src/http/admin/guardrails/guardrails.ts';
import {
  explainedWorkflow,
  explainedWorkflowOf,
  workflowRow,
  workflowRowOf,
  workflowVersionRow,
  workflowVersionRowOf,
} from '../../src/http/admin/guardrails/workflow-rows.ts';
import { workflowBody, workflowInput } from '../../src/http/admin/guardrails/workflows.ts';
import { openTestLog } from '../projections/log-engines.ts';
import { admin, allOn, draft, openWorkflows, steps, types } from '../workflows/made.ts';

const { failover: _default, budget: _alsoDefault, ...features } = allOn;
const read = (body: object) => workflowInput(workflowBody.parse(body));

function refusalOf(work: () => unknown): Refusal | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/** The row, which has no member beside those of its schema. */
function exactly<Schema extends z.ZodType>(schema: Schema, row: z.infer<Schema>): z.infer<Schema> {
  expect(schema.parse(row)).toEqual(row);
  return row;
}

describe('the body of POST /admin/workflows', () => {
  it('is read with defaults, and with the former names of members', () => {
    expect(read({ name: 'n', workflow_payload: { features } })).toEqual({
      name: 'n',
      payload: { features: allOn },
    });
    const former = { ...features, budget: false, fallback: false };
    expect(
      read({
        scope_provider: 'openai',
        scope_model: 'gpt',
        scope_user_path: 'team/',
        name: 'n',
        description: 'd',
        workflow_payload: { schema_version: 1, features: former, guardrails: [{ ref: 'a' }, { ref: 'b', step: 2 }] },
      }),
    ).toEqual({
      provider: 'openai',
      model: 'gpt',
      userPath: '/team',
      name: 'n',
      description: 'd',
      payload: {
        schemaVersion: 1,
        features: { ...allOn, budget: false, failover: false },
        guardrails: [{ ref: 'a' }, { ref: 'b', step: 2 }],
      },
    });
  });

  it('takes empty texts of the scope for absent ones', () => {
    const scope = { scope_provider_name: '', scope_model: '', scope_user_path: '' };
    expect(read({ ...scope, name: 'n', workflow_payload: { features } })).toEqual(
      read({ name: 'n', workflow_payload: { features } }),
    );
  });

  it('is refused when a member and its former name differ', () => {
    const two = { name: 'n', workflow_payload: { features: { ...features, failover: true, fallback: false } } };
    expect(refusalOf(() => read(two))).toMatchObject({ param: 'workflow_payload.features.fallback' });
    const providers = { scope_provider_name: 'a', scope_provider: 'b', name: 'n', workflow_payload: { features } };
    expect(refusalOf(() => read(providers))).toMatchObject({ param: 'scope_provider' });
  });

  it('is refused with an unknown member, and without a feature that has no default', () => {
    expect(workflowBody.safeParse({ name: 'n', workflow_payload: { features }, x: 1 }).success).toBe(false);
    const { audit: _missing, ...rest } = features;
    expect(workflowBody.safeParse({ name: 'n', workflow_payload: { features: rest } }).success).toBe(false);
  });
});

describe('rows of workflows and guardrails', () => {
  it('have the members of the admin API', async () => {
    const { log, discard } = await openTestLog('memory');
    const { changes, guardrailChanges, guardrails, directory, close } = await openWorkflows(log);
    await changes.manageDefault([]);
    const body = { name: 'a', type: 'vault', config: { url: 'u', token: 'hush' }, timeout_ms: 5 };
    await guardrailChanges.save(guardrailInput(guardrailBody.parse(body)), { context: admin });
    const one = await changes.create(draft({ provider: 'openai', userPath: '/team', payload: steps('a') }), admin);

    const rows = [...directory.active].map((compiled) => {
      const { createdAt = 0 } = directory.storedAs(compiled.selected.scope) ?? {};
      return exactly(workflowRow, workflowRowOf(compiled, { createdAt, revision: 0 }));
    });
    expect(rows).toMatchObject([
      {
        scope: {},
        scope_type: 'global',
        scope_display: 'global',
        managed_default: true,
        name: 'default-global',
        effective_features: { ...allOn, guardrails: false },
      },
      {
        id: one.id,
        scope: { scope_provider_name: 'openai', scope_user_path: '/team' },
        scope_type: 'provider_path',
        scope_display: 'openai @ /team',
        version: 1,
        active: true,
        workflow_payload: { schema_version: 2, steps: [{ ref: 'a', phase: 'prompt', step: 0 }] },
        workflow_hash: one.payloadSha256,
        chain_hashes: { prompt: expect.stringMatching(/^[0-9a-f]{64}$/) },
      },
    ]);
    expect(rows[0]).not.toHaveProperty('chain_hashes');
    expect(rows[1]?.guardrails_hash).toBe(rows[1]?.chain_hashes?.prompt);

    const place = directory.placeOf(one.id);
    const recorded = place && (await readVersion(place, log));
    expect(recorded && exactly(workflowVersionRow, workflowVersionRowOf(recorded, 0))).toMatchObject({
      id: one.id,
      scope_key: 'provider_path:openai:/team',
      active: true,
    });

    const [row] = guardrailRows(guardrails, types);
    expect(row && exactly(guardrailRow, row)).toMatchObject({
      name: 'a',
      config: { url: 'u', token: '********' },
      fail_mode: 'closed',
      timeout_ms: 5,
      phases: ['prompt'],
      managed: false,
      revision: '0',
    });
    const [offered] = workflowGuardrailRows(guardrails);
    expect(offered && exactly(workflowGuardrailRow, offered)).toMatchObject({ name: 'a', phases: ['prompt'] });
    expect(guardrailTypeRows(types).map((type) => exactly(guardrailTypeRow, type).type)).toEqual([
      'shout',
      'watch',
      'vault',
    ]);

    const explained = explainWorkflow({ userPath: '/team', provider: 'openai', model: 'gpt' }, directory);
    expect(exactly(explainedWorkflow, explainedWorkflowOf(explained))).toMatchObject({
      matching: { id: one.id, scope: 'openai @ /team', version: 1 },
      others: [{ scope: 'global', scope_type: 'global', reason: 'less specific' }],
      omitted: 0,
    });
    await close();
    await discard();
  });

  it('never show a secret that the configuration declares', async () => {
    const { log, discard } = await openTestLog('memory');
    const declared = new Map([
      ['a', { name: 'a', type: 'vault', config: { url: 'u', token: 'hush' }, failMode: 'open' as const, timeoutMs: 0 }],
      ['b', { name: 'b', type: 'gone', config: { token: 'hush' }, failMode: 'open' as const, timeoutMs: 0 }],
    ]);
    const { guardrails, close } = await openWorkflows(log, { declared });
    const rows = guardrailRows(guardrails, types);
    expect(JSON.stringify(rows)).not.toContain('hush');
    expect(rows).toMatchObject([{ managed: true }, { managed: true, problem: "there is no guardrail type 'gone'" }]);
    await close();
    await discard();
  });
});
