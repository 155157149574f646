import './live.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { followPageKey } from '../../app/keys.ts';
import { formatCount } from '../../format/numbers.ts';
import type { ConnectionStatus } from '../../live/follow-log.ts';
import { countAfter } from '../../live/live-items.ts';
import { isOpen } from '../../live/live-row.ts';
import type { SharedStream } from '../../live/shared-stream.ts';
import { Button } from '../../ui/button.tsx';
import { FirstRequest } from '../../ui/first-request.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { useAnnouncedCount } from './announced-count.ts';
import { currentFilter, hasFilter, LiveFilters } from './live-filters.tsx';
import { LiveStatus } from './live-status.tsx';
import { LiveTable } from './live-table.tsx';
import { SelectedAnswer } from './selected-answer.tsx';
import { useLiveStream } from './use-live-stream.ts';
import { useLiveView } from './use-live-view.ts';

/** How often running clocks and the rate are drawn again without events. */
const CLOCK_MS = 250;

export default function LivePage() {
  const isOff = access.value?.features['DASHBOARD_LIVE_LOGS_ENABLED'] === 'off';
  return isOff ? <LiveOff /> : <LiveRequests />;
}

function LiveOff() {
  return (
    <>
      <PageHeader title="Live" />
      <EmptyState title="Live logs are switched off.">
        <p>
          Start the gateway with <code>DASHBOARD_LIVE_LOGS_ENABLED=true</code>, or set{' '}
          <code>live_logs.enabled: true</code> in its configuration file. Requests are recorded in any case: the pages
          Audit and Exchange show them.
        </p>
      </EmptyState>
    </>
  );
}

function LiveRequests() {
  const filter = currentFilter();
  const stream = useLiveStream(filter);
  const view = useLiveView(stream?.state);
  const [selected, setSelected] = useState<string | undefined>(undefined);
  useClock(stream);

  const { mode, newRows } = view;
  const jump = () => {
    setSelected(undefined);
    view.follow();
  };
  const toggle = mode === 'paused' ? jump : view.pause;
  const latest = useRef(toggle);
  latest.current = toggle;
  useEffect(() => followPageKey(' ', () => latest.current()), []);
  const unselect = useRef(jump);
  unselect.current = jump;
  useEffect(() => followPageKey('Escape', () => unselect.current()), []);

  const current = useRef(stream);
  current.current = stream;
  const start = useRef(stream?.state.rows.at(-1));
  const announced = useAnnouncedCount(() => countAfter(current.current?.state.rows ?? [], start.current));

  const status = stream?.status;
  const state = stream?.state;
  const row = selected === undefined ? undefined : state?.get(selected);
  const now = Date.now() - (state?.clockAhead ?? 0);
  const isEmpty = view.items.length === 0 && (state?.rows.length ?? 0) === 0;
  return (
    <>
      <PageHeader title="Live">
        <Button pressed={mode === 'paused'} keyShortcut="Space" title="Space" onClick={toggle}>
          {mode === 'paused' ? 'Resume' : 'Pause'}
        </Button>
        <Button
          pressed={mode === 'following'}
          title="Show new requests at the top as they arrive"
          onClick={() => (mode === 'following' ? view.browse() : jump())}
        >
          Follow
        </Button>
        <Button onClick={view.clear} title="Remove the rows from this list. The log keeps them.">
          Clear
        </Button>
      </PageHeader>
      <LiveFilters
        filter={filter}
        problem={status?.state === 'stopped' && status.reason === 'request_refused' ? status.message : undefined}
      />
      {stream === undefined ? <div class="live-status" /> : <LiveStatus stream={stream} now={Date.now()} />}
      {status?.state === 'stopped' && <Stopped status={status} />}
      <p class="visually-hidden" aria-live="polite">
        {announced}
      </p>
      {isEmpty && status?.state === 'live' ? (
        <Waiting isFiltered={hasFilter(filter)} />
      ) : (
        <div class="live-list" data-mode={mode} data-selected={row !== undefined}>
          {mode !== 'following' && (
            <div class="live-held">
              <span>{mode === 'paused' ? 'Paused.' : 'Not following.'}</span>
              <Button look="main" onClick={jump}>
                {newRows === 0 ? 'Jump to newest' : `${formatCount(newRows)} new · Jump to newest`}
              </Button>
            </div>
          )}
          <LiveTable view={view} selected={selected} onSelect={setSelected} now={now} />
        </div>
      )}
      {row !== undefined && <SelectedAnswer row={row} onClose={() => setSelected(undefined)} />}
    </>
  );
}

/** Draws the component again while clocks run. */
function useClock(stream: SharedStream | undefined): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (stream === undefined) return undefined;
    const timer = setInterval(() => {
      if (document.visibilityState !== 'visible') return;
      const isRunning =
        stream.status.state !== 'live' || stream.state.rate.perSecond > 0.05 || stream.state.rows.some(isOpen);
      if (isRunning) setTick((tick) => tick + 1);
    }, CLOCK_MS);
    return () => clearInterval(timer);
  }, [stream]);
}

function Stopped({ status }: { readonly status: Extract<ConnectionStatus, { state: 'stopped' }> }) {
  return (
    <div class="error-panel" role="alert">
      <p>
        <strong>{stopTitles[status.reason]}</strong> {status.message}
      </p>
    </div>
  );
}

const stopTitles = {
  key_refused: 'The key is not accepted.',
  access_denied: 'The key may not read live logs.',
  switched_off: 'Live logs are switched off.',
  request_refused: 'The gateway refused the filter.',
} as const;

function Waiting({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <EmptyState title="No request of this filter yet.">
        <p>Requests appear here while they are in flight. Earlier ones are on the page Audit.</p>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="Waiting for requests.">
      <FirstRequest />
    </EmptyState>
  );
}
