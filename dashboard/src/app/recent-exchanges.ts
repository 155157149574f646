/** The exchanges that were shown in this tab, the newest first. */
import { effect, signal } from '@preact/signals';
import { read, write } from '../settings/stored.ts';
import { route } from './router.ts';

const KEY = 'chancery.recent-exchanges';
const MAX = 8;
const PATH = '/exchange/';

export const recentExchanges = signal<readonly string[]>(stored());

/** Ids only: nothing of a record is kept. @returns ends it */
export function followRecentExchanges(): () => void {
  return effect(() => {
    const { path } = route.value;
    if (!path.startsWith(PATH)) return;
    const id = path.slice(PATH.length);
    const before = recentExchanges.peek();
    if (id === '' || before[0] === id) return;
    recentExchanges.value = [id, ...before.filter((one) => one !== id)].slice(0, MAX);
    write('session', KEY, recentExchanges.value);
  });
}

function stored(): readonly string[] {
  const list = read('session', KEY);
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string').slice(0, MAX) : [];
}
