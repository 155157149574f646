/** Rules over several streams hold when two gateways change different streams at the same time. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { highest } from '../../src/commands/access/authority.ts';
import { handleCommand } from '../../src/commands/handle-command.ts';
import { changeKey, type KeyCommand, keyDecider, keyStream, type NewKey } from '../../src/commands/keys/key.ts';
import { refusals } from '../../src/commands/refusal.ts';
import { VirtualModelChanges } from '../../src/commands/virtual-models/decider.ts';
import { VirtualModelDirectory } from '../../src/commands/virtual-models/directory.ts';
import { MAX_DEPTH } from '../../src/commands/virtual-models/virtual-model.ts';
import { virtualModelRemoved } from '../../src/events/catalogue/workflow.ts';
import type { UserPath } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { keysView } from '../../src/projections/keys.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { virtualModelsView } from '../../src/projections/workflows.ts';
import { root } from '../e2e/gateway-process.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica } from '../support/replicas.ts';
import { redirect } from '../virtual-models/virtual-model-fixtures.ts';
import { draft, guardrail, openWorkflows, steps } from '../workflows/made.ts';

const context = { actor: 'master' } as const;
const change = { context, ifRevision: undefined };
const ROUNDS = 12;
let store: MemoryEngineStore;
let closing: (() => Promise<void>)[];

beforeEach(() => {
  // Both gateways decide before either has read what the other appended.
  store = new MemoryEngineStore({ readTurns: () => 5 });
  closing = [];
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
});

async function replica(): Promise<EventLog> {
  const opened = await Replica.open(() => store.connect());
  closing.push(() => opened.dispose());
  return opened.log;
}

/** Resolves after this many turns of the event loop. */
async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await setImmediate();
}

/** The results of changes that are made at once: `undefined`, or the code of the refusal. */
async function atOnce(...changes: Promise<unknown>[]): Promise<unknown[]> {
  const results = await Promise.allSettled(changes);
  return results.map((result) => (result.status === 'fulfilled' ? undefined : result.reason.code));
}

async function virtualModels() {
  const log = await replica();
  const projections = createProjectionRunner(log);
  closing.push(() => projections.close());
  const view = projections.run(virtualModelsView);
  await view.caughtUp;
  const directory = new VirtualModelDirectory({
    stored: view,
    declared: new Map(),
    enabledByDefault: true,
  });
  const whenProcessed = view.whenProcessed;
  return { log, changes: new VirtualModelChanges({ log, directory, serves: () => false, whenProcessed }) };
}

/** Whether the virtual model `base<n>` was removed before `user<n>` named it: then the name is one of a model of a provider. */
async function firstWord(log: EventLog, n: number): Promise<string | undefined> {
  for await (const { type, data } of log.readAll({ filter: { types: ['virtual_model.'] } })) {
    const { source } = virtualModelRemoved.data.loose().parse(data);
    if (source === `user${n}` || (source === `base${n}` && type === virtualModelRemoved.type)) return source;
  }
  return undefined;
}

describe('changes of two gateways at once', () => {
  it('form no cycle of virtual models', async () => {
    const [a, b] = [await virtualModels(), await virtualModels()];
    for (let n = 0; n < ROUNDS; n++) {
      const results = await atOnce(
        a.changes.save(redirect(`x${n}`, [`y${n}`]), undefined, change),
        b.changes.save(redirect(`y${n}`, [`x${n}`]), undefined, change),
      );
      expect(results.toSorted()).toEqual(['virtual_model_cycle', undefined]);
    }
  });

  it('make no chain of virtual models that is too deep', async () => {
    const [a, b] = [await virtualModels(), await virtualModels()];
    const depth = MAX_DEPTH - 1;
    for (let n = 0; n < 4; n++) {
      for (let at = depth; at > 1; at--) {
        await a.changes.save(
          redirect(`m${n}-${at}`, [at === depth ? 'openai/gpt' : `m${n}-${at + 1}`]),
          undefined,
          change,
        );
      }
      const results = await atOnce(
        a.changes.save(redirect(`m${n}-${depth}`, [`deeper${n}`]), undefined, change),
        a.changes.save(redirect(`deeper${n}`, ['openai/gpt']), undefined, change),
        b.changes.save(redirect(`m${n}-1`, [`m${n}-2`]), undefined, change),
        b.changes.save(redirect(`m${n}-0`, [`m${n}-1`]), undefined, change),
      );
      expect(results.filter((code) => code === 'virtual_model_too_deep')).toHaveLength(1);
      expect(results.filter((code) => code === undefined)).toHaveLength(3);
    }
  });

  it('leave no virtual model without the one that it names', async () => {
    const [a, b] = [await virtualModels(), await virtualModels()];
    for (let n = 0; n < ROUNDS; n++) {
      await a.changes.save(redirect(`base${n}`, ['openai/gpt']), undefined, change);
      const [renamed] = await atOnce(
        turns(n).then(() => a.changes.save(redirect(`moved${n}`, ['openai/gpt']), `base${n}`, change)),
        b.changes.save(redirect(`user${n}`, [`base${n}`]), undefined, change),
      );
      if (renamed === undefined) expect(await firstWord(a.log, n)).toBe(`base${n}`);
      else expect(renamed).toBe('virtual_model_in_use');
    }
  });

  it('leave no workflow without its guardrails', async () => {
    const [one, other] = [await openWorkflows(await replica()), await openWorkflows(await replica())];
    closing.push(one.close, other.close);
    for (let n = 0; n < ROUNDS; n++) {
      await one.guardrailChanges.save(guardrail(`g${n}`), { context });
      const made = draft({ userPath: `/team${n}`, payload: steps(`g${n}`) });
      const [removed, created] = await atOnce(
        one.guardrailChanges.remove(`g${n}`, { context }),
        other.changes.create(made, context),
      );
      expect([removed === undefined, created === undefined].toSorted()).toEqual([false, true]);
    }
  });

  it('give a new key nothing that the key of its administrator has lost', async () => {
    const [one, other] = [await keys(), await keys()];
    for (let n = 0; n < ROUNDS; n++) {
      const admin = `admin${n}`;
      await one.change(() => create(admin, ['openai/', 'anthropic/'], undefined));
      await other.caughtUp();
      const [restricted, created] = await atOnce(
        one.change(() => ({ kind: 'set allowed models', id: admin, allowedModels: ['openai/'], context, by: master })),
        turns(n).then(() => other.change(() => create(`child${n}`, ['anthropic/'], other.administrator(admin)))),
      );
      expect(restricted).toBeUndefined();
      await other.caughtUp();
      const [changed, made] = [admin, `child${n}`].map((id) => other.position(id));
      // Made before the restriction, or not at all.
      if (created === undefined) expect(Number(made)).toBeLessThan(Number(changed));
      else expect(created).toBe('exceeds_own_access');
    }
  });
});

const master = { authority: highest, key: undefined };

function create(id: string, allowedModels: readonly string[], key: KeyCommand['by']['key']): KeyCommand {
  const facts: NewKey = {
    ...{ name: id, description: undefined, labels: [], dashboardAccess: true, allowedModels },
    ...{ userPath: '/team' as UserPath, userPathHeader: true, allowedCidrs: [], expiresAt: undefined },
    ...{ secretHash: id, lastCharacters: 'abcd' },
  };
  return { kind: 'create', id, context, by: { authority: highest, key }, ...facts };
}

async function keys() {
  const log = await replica();
  const projections = createProjectionRunner(log);
  closing.push(() => projections.close());
  const positions = new Map<string, string>();
  const view = projections.run({
    ...keysView,
    apply(state, event) {
      positions.set(event.stream, event.position);
      return keysView.apply(state, event);
    },
  });
  await view.caughtUp;
  return {
    caughtUp: async () => view.whenProcessed(await log.head()),
    position: (id: string) => positions.get(keyStream(id)),
    administrator(id: string) {
      const key = view.state.byId.get(id);
      if (key === undefined) throw refusals.notFound('key', id);
      return key;
    },
    async change(commandOf: () => KeyCommand) {
      const { position } = await changeKey(commandOf, { log, whenProcessed: view.whenProcessed });
      if (position !== undefined) await view.whenProcessed(position);
    },
  };
}

/** Every decider, with the rule over other streams that its commands depend on; `undefined`: none but its own stream. */
const rules: Readonly<Record<string, string | undefined>> = {
  budgetSettingsDecider: undefined,
  conversationDecider: undefined,
  credentialDecider: undefined,
  guardrailDecider: 'guard-workflows: active workflows name guardrails that exist and fit',
  keyDecider: 'the key of the administrator is unchanged: no key exceeds the one that made it',
  limitDecider: undefined,
  objectDecider: undefined,
  taggingDecider: undefined,
  userPolicyDecider: undefined,
  virtualModelDecider: 'guard-virtual-models: no cycle, bounded depth, no missing name',
  workflowDecider: 'guard-workflows: active workflows name guardrails that exist and fit',
};

/** Appends to streams of the configuration without a decider. */
const withoutDecider: Readonly<Record<string, string>> = {
  'src/commands/exchange/caching/response-cache.ts': 'compatible with every other change',
  'src/plugins/load-plugins.ts': 'what this gateway has loaded',
};

describe('a rule over several streams', () => {
  const files = globSync('src/**/*.ts', { cwd: root }).map(
    (file) => [file, readFileSync(join(root, file), 'utf8')] as const,
  );

  it('is known for each decider, which declares that it depends on other streams', () => {
    const found: Record<string, boolean> = {};
    for (const [, text] of files) {
      for (const [, name = '', declared] of text.matchAll(
        /(\w+Decider)(?:<[^>]*>)?(?:\([^)]*\))?: Decider<[\s\S]*?dependsOn: '(its stream|other streams)'/g,
      )) {
        found[name] = declared === 'other streams';
      }
    }
    expect(found).toEqual(Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, rule !== undefined])));
  });

  it('is not evaded by appending to the configuration without a decider', () => {
    const categories =
      /streamName\(\s*'(budget|credential|guardrail|key|plugin|price|rate|settings|user|virtual|workflow)/;
    const found = files
      .filter(([, text]) => /log\s*\.append\(/.test(text) && categories.test(text))
      .map(([file]) => file);
    expect(found.filter((file) => withoutDecider[file] === undefined)).toEqual([]);
  });

  it('refuses a change without conditions', async () => {
    const log = await replica();
    const command = create('a', [], undefined);
    await expect(handleCommand(keyDecider, command, { log, stream: keyStream('a') })).rejects.toThrow(
      'depends on other streams, and has no conditions on them',
    );
  });
});
