import { beforeEach, describe, expect, it } from 'vitest';
import {
  CircuitBreaker,
  type CircuitPermit,
  type CircuitState,
  type Verdict,
} from '../../../src/commands/exchange/attempts/circuit-breaker.ts';

let now: number;
let changes: CircuitState[];
let breaker: CircuitBreaker;

beforeEach(() => {
  now = 0;
  changes = [];
  breaker = create(true);
});

function create(enabled: boolean): CircuitBreaker {
  const policy = { enabled, failureThreshold: 5, successThreshold: 2, openMs: 30_000, isFailure: () => true };
  return new CircuitBreaker(
    policy,
    () => now,
    (state) => changes.push(state),
  );
}

/** A permit for a call. @throws when the breaker refuses it */
function entered(): CircuitPermit {
  const { permit } = breaker.enter();
  if (permit === undefined) throw new Error('the breaker refuses the call');
  return permit;
}

function call(...verdicts: readonly Verdict[]): void {
  for (const verdict of verdicts) entered().end(verdict);
}

const fail = (times: number) => call(...Array.from({ length: times }, () => 'failed' as const));

describe('a circuit breaker', () => {
  it('stays closed while failures are fewer than its threshold, or are interrupted by a success', () => {
    fail(4);
    call('succeeded');
    fail(4);
    expect(breaker.state).toBe('closed');
    expect(breaker.enter().permit).toBeDefined();
  });

  it('opens at the threshold and returns how long it will stay open', () => {
    fail(5);
    now = 10_000;
    expect(breaker.state).toBe('open');
    expect(breaker.enter()).toEqual({ permit: undefined, waitMs: 20_000 });
  });

  it('lets one probe through when its time is over, and no second one beside it', () => {
    fail(5);
    now = 30_000;
    entered();
    expect(breaker.state).toBe('half_open');
    expect(breaker.enter()).toEqual({ permit: undefined, waitMs: 1000 });
  });

  it('closes after enough successful probes', () => {
    fail(5);
    now = 30_000;
    call('succeeded', 'succeeded');
    expect(breaker.state).toBe('closed');
    expect(changes).toEqual(['open', 'half_open', 'closed']);
  });

  it('opens again, for the whole time, when a probe fails', () => {
    fail(5);
    now = 30_000;
    fail(1);
    expect(breaker.enter()).toEqual({ permit: undefined, waitMs: 30_000 });
  });

  it('admits the next probe after one with a neutral end', () => {
    fail(5);
    now = 30_000;
    call('neutral');
    expect(breaker.state).toBe('half_open');
    entered();
  });

  it('counts a neutral end neither as a failure nor as a success', () => {
    fail(4);
    call('neutral');
    expect(breaker.state).toBe('closed');
    fail(1);
    expect(breaker.state).toBe('open');
  });

  it('counts the first end of a call only', () => {
    const permit = entered();
    for (let end = 0; end < 10; end++) permit.end('failed');
    expect(breaker.state).toBe('closed');
  });

  it('reports whether it would refuse, without using a permit', () => {
    expect(breaker.refuses()).toBe(false);
    fail(5);
    expect(breaker.refuses()).toBe(true);
    now = 30_000;
    expect([breaker.refuses(), breaker.refuses(), breaker.state]).toEqual([false, false, 'open']);
    const probe = entered();
    expect(breaker.refuses()).toBe(true);
    probe.end('succeeded');
    expect(breaker.refuses()).toBe(false);
  });

  it('never opens when it is switched off', () => {
    breaker = create(false);
    fail(100);
    entered();
    expect(changes).toEqual([]);
  });
});

describe('a call that ends after the state has changed', () => {
  it('does not close the breaker by its success', () => {
    const [one, other] = [entered(), entered()];
    fail(5);
    now = 30_000;
    const probe = entered();
    one.end('succeeded');
    other.end('succeeded');
    expect(breaker.state).toBe('half_open');
    probe.end('succeeded');
    expect(breaker.state).toBe('half_open');
    expect(changes).toEqual(['open', 'half_open']);
  });

  it.each(['succeeded', 'failed', 'neutral'] as const)('does not let a second probe through when it %s', (verdict) => {
    const old = entered();
    fail(5);
    now = 30_000;
    entered();
    old.end(verdict);
    expect(breaker.state).toBe('half_open');
    expect(breaker.enter().permit).toBeUndefined();
  });

  it('does not open the breaker again by its failure', () => {
    const old = Array.from({ length: 20 }, entered);
    fail(5);
    now = 30_000;
    call('succeeded', 'succeeded');
    for (const permit of old) permit.end('failed');
    expect(breaker.state).toBe('closed');
    fail(4);
    expect(breaker.state).toBe('closed');
  });

  it('does not prolong the time that the breaker is open', () => {
    const old = entered();
    fail(5);
    now = 20_000;
    old.end('failed');
    expect(breaker.enter()).toEqual({ permit: undefined, waitMs: 10_000 });
  });
});

describe('a circuit breaker that knows who calls with what', () => {
  const by = (caller: string, body = caller) => ({ caller, body: () => body });
  const end = (verdict: Verdict, ...calls: readonly { caller: string; body: () => string }[]) => {
    for (const one of calls) breaker.enter(one).permit?.end(verdict);
  };
  const mayCall = (one: { caller: string; body: () => string }) => {
    const { permit } = breaker.enter(one);
    permit?.end('neutral');
    return permit !== undefined;
  };

  it('refuses only the caller whose calls failed', () => {
    for (let call = 0; call < 6; call++) end('failed', by('a', `body ${call}`));
    expect([mayCall(by('a', 'another')), mayCall(by('b'))]).toEqual([false, true]);
    expect([breaker.refuses('a'), breaker.refuses('b')]).toEqual([true, false]);
  });

  it('refuses only the body that failed', () => {
    for (let call = 0; call < 6; call++) end('failed', by(`caller ${call}`, 'poison'));
    expect([mayCall(by('caller 0', 'good')), mayCall(by('new', 'poison'))]).toEqual([true, false]);
  });

  it('closes when another caller succeeds, and refuses all when another fails', () => {
    for (let call = 0; call < 5; call++) end('failed', by('a'));
    end('succeeded', by('b'));
    expect([breaker.state, mayCall(by('a'))]).toEqual(['closed', true]);
    for (let call = 0; call < 5; call++) end('failed', by('a'));
    end('failed', by('b'));
    expect(mayCall(by('c'))).toBe(false);
    now = 30_000;
    end('succeeded', by('c'), by('d'));
    expect(breaker.state).toBe('closed');
  });

  it('opens for all when more than half of 20 calls of several callers fail, without five in a row', () => {
    for (let round = 0; round < 5; round++) {
      end('failed', by('a'), by('b'), by('c'));
      expect(breaker.state).toBe('closed');
      end('succeeded', by('d'));
    }
    end('failed', by('a'));
    expect([breaker.state, mayCall(by('e'))]).toEqual(['open', false]);
  });

  it('leaves out of that share one caller, or one body, that fails while others succeed', () => {
    for (let round = 0; round < 40; round++) {
      end('failed', by('a', `${round}`), by('a'), by('a'));
      end('succeeded', by('b'));
    }
    expect(changes).toEqual([]);
    breaker = create(true);
    for (let round = 0; round < 40; round++) {
      end('failed', by('c', 'poison'), by('d', 'poison'), by('e', 'poison'));
      end('succeeded', by('c', 'good'));
    }
    expect(changes).toEqual([]);
  });

  it('counts the share of the last minute only', () => {
    for (let round = 0; round < 6; round++) {
      end('failed', by('a'), by('b'), by('c'));
      end('succeeded', by('d'));
      now += 15_000;
    }
    expect(changes).toEqual([]);
  });
});
