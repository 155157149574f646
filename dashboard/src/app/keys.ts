/**
 * Keys of the whole page. Keys without a modifier act only outside of fields, and not while a dialog is open, except
 * Escape, which the browser gives to the dialog. Letters and signs act only while `letterKeys` is on. An element with
 * `data-own-keys`, such as a region that scrolls, keeps the arrow keys, Enter and Space for itself.
 */
import { signal } from '@preact/signals';
import { letterKeys } from '../settings/letter-keys.ts';
import type { PageEntry } from './page-entry.ts';
import { hrefOf, navigate } from './router.ts';

/** Which overlay is open. */
export const overlay = signal<'none' | 'palette' | 'help'>('none');

interface RowKeys {
  /** By so many rows. */
  move(by: number): void;
  open(): void;
}

const rowKeys: RowKeys[] = [];
const pageKeys = new Map<string, () => void>();

/** Gives `j`, `k`, the arrow keys and `Enter` to a list, the newest one first. @returns ends it */
export function followRowKeys(keys: RowKeys): () => void {
  rowKeys.push(keys);
  return () => {
    rowKeys.splice(rowKeys.indexOf(keys), 1);
  };
}

/** Gives one key, such as `/` or ` `, to the shown page. @returns ends it */
export function followPageKey(key: string, run: () => void): () => void {
  pageKeys.set(key, run);
  return () => {
    if (pageKeys.get(key) === run) pageKeys.delete(key);
  };
}

/** Milliseconds in which a letter after `g` selects a page. */
const SEQUENCE_MS = 1500;

/** @param pages with letters that select them; given, since pages import this file */
export function followKeys(pages: readonly Pick<PageEntry, 'letter' | 'path'>[]): () => void {
  let pressedG = Number.NEGATIVE_INFINITY;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      overlay.value = overlay.value === 'palette' ? 'none' : 'palette';
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || isDialogOpen()) return;
    if (event.key.length === 1 && event.key !== ' ' && !letterKeys.value) return;
    if (performance.now() - pressedG < SEQUENCE_MS) {
      pressedG = Number.NEGATIVE_INFINITY;
      const page = pages.find(({ letter }) => letter === event.key);
      if (page !== undefined) {
        event.preventDefault();
        navigate(hrefOf(page.path));
        return;
      }
    }
    if (event.key === 'g') {
      pressedG = performance.now();
      return;
    }
    const run = actionOf(event);
    if (run === undefined) return;
    event.preventDefault();
    run();
  };
  document.addEventListener('keydown', onKeyDown);
  return () => document.removeEventListener('keydown', onKeyDown);
}

function actionOf(event: KeyboardEvent): (() => void) | undefined {
  if (event.key === '?') {
    return () => {
      overlay.value = 'help';
    };
  }
  const ofPage = pageKeys.get(event.key);
  const onControl =
    event.target instanceof Element &&
    event.target.closest('a, button, summary, [role=tab], [role=tree], [data-own-keys]');
  if (ofPage !== undefined && !(onControl && event.key === ' ')) return ofPage;
  const rows = rowKeys.at(-1);
  if (rows === undefined) return undefined;
  if (event.key === 'j') return () => rows.move(1);
  if (event.key === 'k') return () => rows.move(-1);
  if (onControl) return undefined;
  if (event.key === 'ArrowDown') return () => rows.move(1);
  if (event.key === 'ArrowUp') return () => rows.move(-1);
  if (event.key === 'Enter') return () => rows.open();
  return undefined;
}

function isTyping({ target }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.closest('input:not([type=checkbox]), select, textarea') !== null;
}

function isDialogOpen(): boolean {
  return overlay.value !== 'none' || document.querySelector('dialog[open]') !== null;
}
