/** What the entered key may see, and which features of the gateway are on: both read when the key is entered. */
import { computed, effect, signal } from '@preact/signals';
import { type Answer, ApiError, getAnswer } from './client.ts';
import { sessionKey } from './session-key.ts';

export interface Access {
  /** The administered subtree; undefined for everything. */
  readonly userPath: string | undefined;
  /** Features by name: `on`, `off` or another value. */
  readonly features: Readonly<Record<string, string>>;
}

export const access = signal<Access | undefined>(undefined);
/** Set while the gateway could not be reached or refused. */
export const accessError = signal<ApiError | undefined>(undefined);
/** Increased to read again. */
const attempt = signal(0);

/** Whether gateway-wide data may be read. */
export const isGlobal = computed(() => access.value !== undefined && access.value.userPath === undefined);

export function readAccessAgain(): void {
  attempt.value += 1;
}

/** Begins to follow the key. */
export function followAccess(): () => void {
  return effect(() => {
    attempt.value;
    const key = sessionKey.value;
    access.value = undefined;
    accessError.value = undefined;
    if (key === '') return undefined;
    const leaving = new AbortController();
    void readAccess(leaving.signal);
    return () => leaving.abort();
  });
}

async function readAccess(signal: AbortSignal): Promise<void> {
  try {
    const [scope, features] = await Promise.all([
      getAnswer('/admin/access', { signal }),
      getAnswer('/admin/runtime/config', { signal }),
    ]);
    access.value = { userPath: scopeOf(scope), features: features as Record<string, string> };
  } catch (error) {
    if (!signal.aborted && error instanceof ApiError) accessError.value = error;
  }
}

function scopeOf(scope: Answer<'/admin/access'>): string | undefined {
  return scope.scope === 'user_path' ? scope.user_path : undefined;
}
