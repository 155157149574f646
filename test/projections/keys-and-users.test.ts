import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { highest } from '../../src/commands/access/authority.ts';
import { mintKeySecret } from '../../src/commands/access/key-directory.ts';
import { handleCommand } from '../../src/commands/handle-command.ts';
import { type KeyCommand, keyDecider, keyStream } from '../../src/commands/keys/key.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import {
  type UserPolicy,
  type UserPolicyCommand,
  userPolicyDecider,
  userStream,
} from '../../src/commands/users/user-policy.ts';
import type { RecordedEvent, UserPath } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import type { SavedObjects } from '../../src/projections/administered.ts';
import { type KeysState, keysView, usersView } from '../../src/projections/keys.ts';
import { fold, type Projection } from '../../src/projections/projection.ts';

const context = { actor: 'master' as const };
const authority = highest;
const by = { authority, key: undefined };
const ids = ['k1', 'k2', 'k3'];
const paths = ['/', '/a', '/a/b', '/c'] as UserPath[];

const networks = fc.array(fc.constantFrom('10.0.0.0/8', '::1/128'), { maxLength: 2 });
const list = fc.array(fc.constantFrom('openai/', 'gpt', '/'), { maxLength: 2 });
const keyCommand: fc.Arbitrary<KeyCommand> = fc
  .tuple(
    fc.constantFrom(...ids),
    fc.oneof(
      fc.record({
        kind: fc.constant('create' as const),
        name: fc.string(),
        description: fc.option(fc.string(), { nil: undefined }),
        userPath: fc.option(fc.constantFrom(...paths), { nil: undefined }),
        labels: list,
        allowedModels: list,
        allowedCidrs: networks,
        dashboardAccess: fc.boolean(),
        userPathHeader: fc.boolean(),
        expiresAt: fc.option(fc.nat(), { nil: undefined }),
      }),
      fc.record({ kind: fc.constant('set labels' as const), labels: list }),
      fc.record({ kind: fc.constant('rename label' as const), from: fc.constant('gpt'), to: fc.constant('x') }),
      fc.record({ kind: fc.constant('set allowed models' as const), allowedModels: list }),
      fc.record({ kind: fc.constant('set allowed cidrs' as const), allowedCidrs: networks }),
      fc.record({ kind: fc.constant('set dashboard access' as const), dashboardAccess: fc.boolean() }),
      fc.record({ kind: fc.constant('set user path header' as const), userPathHeader: fc.boolean() }),
      fc.record({ kind: fc.constant('deactivate' as const) }),
      fc.record({ kind: fc.constant('reactivate' as const) }),
      fc.record({ kind: fc.constant('rotate' as const), previousValidUntil: fc.nat() }),
      fc.record({
        kind: fc.constant('rename' as const),
        name: fc.string(),
        description: fc.option(fc.string(), { nil: null }),
      }),
      fc.record({
        kind: fc.constant('set expiry' as const),
        expiresAt: fc.option(fc.nat(), { nil: undefined }),
      }),
    ),
  )
  .map(([id, command]) => {
    const { secretHash, lastCharacters } = mintKeySecret();
    return { id, context, by, secretHash, lastCharacters, ...command };
  });

const userCommand: fc.Arbitrary<UserPolicyCommand> = fc
  .tuple(
    fc.constantFrom(...paths),
    fc.oneof(
      fc.record({
        kind: fc.constant('set' as const),
        allowedModels: list,
        description: fc.option(fc.string(), { nil: undefined }),
      }),
      fc.record({ kind: fc.constant('remove' as const) }),
    ),
  )
  .map(([userPath, command]) => ({ userPath, context, authority, ...command }));

/** The events of the commands; refused ones have none. */
async function historyOf(keys: readonly KeyCommand[], users: readonly UserPolicyCommand[]): Promise<RecordedEvent[]> {
  const log = new MemoryLog();
  const unlessRefused = (error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
  };
  for (const command of keys) {
    await handleCommand(keyDecider, command, { log, stream: keyStream(command.id), conditions: [] }).catch(
      unlessRefused,
    );
  }
  for (const command of users) {
    await handleCommand(userPolicyDecider, command, { log, stream: userStream(command.userPath) }).catch(unlessRefused);
  }
  return Array.fromAsync(log.readAll());
}

/** The part of a history that passes the view's filter. */
function seen<State>({ filter }: Projection<State>, events: readonly RecordedEvent[]): readonly RecordedEvent[] {
  return events.filter(({ type }) => filter.types?.some((prefix) => type.startsWith(prefix)));
}

function reloaded<State>(view: Projection<State>, state: State): State {
  const saved: unknown = structuredClone(view.save?.(state));
  if (view.load === undefined) throw new Error(`${view.name} cannot be loaded`);
  return view.load(saved);
}

const toldOf = {
  keys: (state: KeysState) => {
    const hashes = [...state.byId.values()].flatMap((key) => [key.secretHash, key.previousSecret?.secretHash ?? '']);
    return {
      byId: state.byId,
      all: new Set(state.all()),
      byHash: hashes.map((hash) => state.withHash(hash)).toSorted((a, b) => String(a?.id).localeCompare(String(b?.id))),
    };
  },
  users: ({ byKey }: SavedObjects<UserPolicy>) => new Map(byKey),
};

describe('the views of keys and users, after any history', () => {
  const history = fc.tuple(fc.array(keyCommand, { maxLength: 20 }), fc.array(userCommand, { maxLength: 12 }));

  it('are the same whether they were folded at once, or saved and loaded on the way', async () => {
    await fc.assert(
      fc.asyncProperty(history, fc.nat(40), async ([keys, users], cut) => {
        const events = await historyOf(keys, users);
        const before = events.slice(0, cut);
        const after = events.slice(cut);
        expect(
          toldOf.keys(
            fold(keysView, seen(keysView, after), reloaded(keysView, fold(keysView, seen(keysView, before)))),
          ),
        ).toEqual(toldOf.keys(fold(keysView, seen(keysView, events))));
        expect(
          toldOf.users(
            fold(usersView, seen(usersView, after), reloaded(usersView, fold(usersView, seen(usersView, before)))),
          ),
        ).toEqual(toldOf.users(fold(usersView, seen(usersView, events))));
      }),
    );
  });

  it('have the state of each stream of a key or policy', async () => {
    await fc.assert(
      fc.asyncProperty(history, async ([keys, users]) => {
        const events = await historyOf(keys, users);
        const view = fold(keysView, seen(keysView, events));
        for (const id of ids) {
          const own = events.filter(({ stream }) => stream === keyStream(id));
          const state = own.reduce(keyDecider.evolve, keyDecider.initial);
          const record = view.byId.get(id);
          if (state.status === 'absent') {
            expect(record).toBeUndefined();
            continue;
          }
          expect(record).toMatchObject({
            labels: state.labels,
            allowedModels: state.allowedModels,
            allowedCidrs: state.allowedCidrs,
            dashboardAccess: state.dashboardAccess,
            revision: own.length - 1,
          });
          expect(record?.deactivatedAt !== undefined).toBe(state.status === 'deactivated');
          expect(record).toMatchObject({
            name: state.name,
            description: state.description,
            expiresAt: state.expiresAt,
          });
          expect(view.withHash(record?.secretHash ?? '')).toBe(record);
          // Every secret that the key ever had, but the newest and perhaps the one before it, is unknown.
          const secrets = own.flatMap(({ data }) => {
            const { secretHash } = data as { secretHash?: string };
            return secretHash === undefined ? [] : [secretHash];
          });
          const accepted = [record?.secretHash, record?.previousSecret?.secretHash];
          for (const hash of secrets) {
            expect(view.withHash(hash)).toBe(accepted.includes(hash) ? record : undefined);
          }
          expect(record?.secretHash).toBe(secrets.at(-1));
          if (record?.previousSecret !== undefined) expect(record.previousSecret.secretHash).toBe(secrets.at(-2));
        }
        const policies = fold(usersView, seen(usersView, events));
        for (const path of paths) {
          const own = events.filter(({ stream }) => stream === userStream(path));
          const state = own.reduce(userPolicyDecider.evolve, userPolicyDecider.initial);
          const record = policies.byKey.get(path)?.value;
          expect(record?.allowedModels).toEqual(state.status === 'set' ? state.allowedModels : undefined);
          expect(record?.description).toEqual(state.status === 'set' ? state.description : undefined);
        }
      }),
    );
  });
});

describe('the view of keys', () => {
  const made = async () => {
    const [created] = fc.sample(
      keyCommand.filter(({ kind }) => kind === 'create'),
      1,
    );
    if (created === undefined) throw new Error('there is no such command');
    return historyOf([created, { id: created.id, context, by, kind: 'set labels', labels: ['new'] }], []);
  };

  it('has another object for a key after each change, and leaves the one before unchanged', async () => {
    const events = await made();
    const [first, ...rest] = events;
    if (first === undefined) throw new Error('nothing happened');
    const state = fold(keysView, [first]);
    const before = [...state.byId.values()][0];
    const then = structuredClone(before);
    fold(keysView, rest, state);
    expect([...state.byId.values()][0]).not.toBe(before);
    expect(before).toEqual(then);
  });

  it.each([[null], ['x'], [[{}]], [[['k1']]], [{ a: 1 }]])('does not load from %j', (saved) => {
    expect(() => keysView.load?.(saved)).toThrow();
  });
});

describe('the lists that keys have in common', () => {
  it('are removed from memory when no key has them any more', async () => {
    const { secretHash, lastCharacters } = mintKeySecret();
    const facts = { id: 'k1', name: 'k', description: undefined, userPath: undefined, labels: [], allowedModels: [] };
    const made = {
      ...facts,
      allowedCidrs: [],
      dashboardAccess: false,
      userPathHeader: true,
      secretHash,
      lastCharacters,
      expiresAt: undefined,
      context,
      by,
    };
    const changes = Array.from({ length: 3000 }, (_, turn) => `of turn ${turn}`).map(
      (label): KeyCommand => ({ kind: 'set labels', id: 'k1', labels: [label], context, by }),
    );
    const events = await historyOf([{ kind: 'create', ...made }], []);
    const [created] = events;
    if (created === undefined) throw new Error('no key was made');
    const view = fold(
      keysView,
      changes.map((change, turn): RecordedEvent => {
        const { labels } = change.kind === 'set labels' ? change : { labels: [] };
        return { ...created, type: 'key.labels_changed', revision: BigInt(turn + 1), data: { labels } };
      }),
      fold(keysView, events),
    );
    expect(view.byId.get('k1')?.labels).toEqual(['of turn 2999']);
    expect(view.listCount).toBeLessThan(1100);
  });
});
