/** The live stream of a filter, for as long as a component is shown. */
import { useEffect, useState } from 'preact/hooks';
import { getAnswer, request } from '../../api/client.ts';
import { sessionKey } from '../../api/session-key.ts';
import { gatewayUrl } from '../../app/base-path.ts';
import { type LiveFilter, liveQuery } from '../../live/live-filter.ts';
import { SharedStream } from '../../live/shared-stream.ts';
import { streamName } from '../../live/stream-name.ts';
import { yieldToPage } from '../../live/yield-to-page.ts';

/** The list is drawn at most this often. */
const DRAW_EVERY_MS = 100;

/** Undefined until it has begun. The component is drawn again after changes. */
export function useLiveStream(filter: LiveFilter): SharedStream | undefined {
  const key = sessionKey.value;
  const [stream, setStream] = useState<SharedStream | undefined>(undefined);
  const [, setVersion] = useState(0);
  const [restored, setRestored] = useState(0);
  useEffect(() => {
    const drawing = drawAtMostEvery(DRAW_EVERY_MS, () => setVersion((version) => version + 1));
    let opened: SharedStream | undefined;
    let isGone = false;
    const visibilityChanged = () => opened?.visibilityChanged();
    const online = () => {
      if (opened?.status.state === 'waiting') opened.retry();
    };
    void openStream(key, filter, drawing.changed).then((begun) => {
      if (isGone) begun.close();
      else {
        opened = begun;
        setStream(begun);
      }
    });
    document.addEventListener('visibilitychange', visibilityChanged);
    addEventListener('online', online);
    // A page that the browser keeps for "back" must not hold the lock.
    const leave = () => opened?.close();
    addEventListener('pagehide', leave);
    const shownAgain = (event: PageTransitionEvent) => {
      if (event.persisted) setRestored((before) => before + 1);
    };
    addEventListener('pageshow', shownAgain);
    return () => {
      isGone = true;
      opened?.close();
      drawing.stop();
      setStream(undefined);
      document.removeEventListener('visibilitychange', visibilityChanged);
      removeEventListener('online', online);
      removeEventListener('pagehide', leave);
      removeEventListener('pageshow', shownAgain);
    };
  }, [key, JSON.stringify(liveQuery(filter)), restored]);
  return stream;
}

async function openStream(key: string, filter: LiveFilter, onChange: () => void): Promise<SharedStream> {
  // Web Locks and digests exist only on HTTPS and localhost.
  const canShare = isSecureContext && navigator.locks !== undefined && typeof BroadcastChannel === 'function';
  return new SharedStream({
    name: canShare ? await streamName(gatewayUrl, key, filter) : '',
    locks: canShare ? navigator.locks : undefined,
    filter,
    open: (cursor, signal) =>
      request('/admin/live/logs', {
        query: liveQuery(filter),
        signal,
        headers: { accept: 'text/event-stream', ...(cursor === undefined ? {} : { 'last-event-id': cursor }) },
      }),
    readLog: (query, signal) => getAnswer('/admin/audit/log', { query, signal }),
    onChange,
    isVisible: () => document.visibilityState === 'visible',
    pause: yieldToPage,
  });
}

/** Calls `draw` before a frame is painted, not more often than every `ms`, and not while the page is hidden. */
function drawAtMostEvery(ms: number, draw: () => void): { changed(): void; stop(): void } {
  let drawnAt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame: number | undefined;
  const drawNow = () => {
    frame = undefined;
    drawnAt = performance.now();
    draw();
  };
  return {
    changed() {
      if (timer !== undefined || frame !== undefined) return;
      timer = setTimeout(
        () => {
          timer = undefined;
          frame = requestAnimationFrame(drawNow);
        },
        Math.max(0, drawnAt + ms - performance.now()),
      );
    },
    stop() {
      clearTimeout(timer);
      if (frame !== undefined) cancelAnimationFrame(frame);
    },
  };
}
