import './shell.css';
import type { ComponentType } from 'preact';
import { useEffect, useErrorBoundary, useId, useRef, useState } from 'preact/hooks';
import { isGlobal } from '../api/access.ts';
import { ApiError } from '../api/client.ts';
import { Button } from '../ui/button.tsx';
import { EmptyState, ErrorPanel } from '../ui/states.tsx';
import { asOfQuery } from './as-of.ts';
import { basePath } from './base-path.ts';
import { HealthBanner } from './health-banner.tsx';
import { Help } from './help.tsx';
import { overlay } from './keys.ts';
import { type Group, groups, type PageEntry, type PageProps } from './page-entry.ts';
import { pageOf, pages } from './pages.ts';
import { Palette } from './palette.tsx';
import { hrefOf, route } from './router.ts';
import { Settings } from './settings.tsx';
import { TimeControl } from './time-control.tsx';

/** Navigation, settings, and the page of the address. */
export function Shell() {
  const shown = pageOf(route.value.path);
  const navigation = useRef<HTMLElement>(null);
  // In a narrow window the pages are one line that scrolls.
  useEffect(() => {
    const bar = navigation.current;
    const link = bar?.querySelector<HTMLElement>('[aria-current="page"]');
    if (bar && link) bar.scrollLeft += middleOf(link) - middleOf(bar);
  }, [shown?.page]);
  return (
    <div class="shell">
      <a class="shell-skip" href="#content">
        Skip to content
      </a>
      <header class="shell-side">
        <p class="shell-name">Chancery</p>
        <nav aria-label="Pages" ref={navigation}>
          {groups.map((group) => (
            <NavigationGroup key={group} group={group} shown={shown?.page} />
          ))}
        </nav>
        <Settings />
      </header>
      <main class="shell-main" id="content" tabIndex={-1}>
        <HealthBanner />
        {shown?.page.asOf === true && <TimeControl />}
        {shown === undefined ? <UnknownPage /> : <LazyPage key={shown.page.name} page={shown.page} id={shown.id} />}
      </main>
      {overlay.value === 'palette' && <Palette />}
      {overlay.value === 'help' && <Help />}
    </div>
  );
}

function middleOf(element: HTMLElement): number {
  const { left, width } = element.getBoundingClientRect();
  return left + width / 2;
}

interface NavigationGroupProps {
  readonly group: Group;
  readonly shown: PageEntry | undefined;
}

function NavigationGroup({ group, shown }: NavigationGroupProps) {
  const id = useId();
  return (
    <>
      <h2 class="shell-group" id={id}>
        {group}
      </h2>
      <ul aria-labelledby={id}>
        {pages
          .filter((page) => page.group === group && isOffered(page))
          .map((page) => (
            <li key={page.name}>
              <a
                href={hrefOf(page.path, page.asOf === true ? asOfQuery() : {})}
                aria-current={shown?.name === page.name ? 'page' : undefined}
                aria-keyshortcuts={page.letter === undefined ? undefined : `g ${page.letter}`}
              >
                {page.title}
              </a>
            </li>
          ))}
      </ul>
    </>
  );
}

function isOffered({ globalOnly }: PageEntry): boolean {
  return globalOnly !== true || isGlobal.value;
}

const loaded = new Map<string, ComponentType<PageProps>>();

function LazyPage({ page, id }: { readonly page: PageEntry; readonly id: string }) {
  const [component, setComponent] = useState(() => loaded.get(page.name));
  const [failed, setFailed] = useState(false);
  const [problem, tryAgain] = useErrorBoundary();
  useEffect(() => {
    page.load().then(
      ({ default: Page }) => {
        loaded.set(page.name, Page);
        setComponent(() => Page);
      },
      () => setFailed(true),
    );
  }, [page]);
  useFocusOnNavigation(component !== undefined, id);
  if (failed) return <NotLoaded />;
  if (problem !== undefined) {
    console.error(problem);
    const message = 'The page could not show what the gateway answered. It may be of another version than this page.';
    return (
      <>
        <h1>{page.title}</h1>
        <ErrorPanel error={new ApiError(message, { status: 0, code: 'unexpected' })} onRetry={tryAgain} />
      </>
    );
  }
  const Page = component;
  return Page === undefined ? <h1 class="visually-hidden">{page.title}</h1> : <Page id={id} />;
}

const LOOKS_AGAIN_MS = 2_000;

/** The document is loaded again by itself when the gateway did not answer and does so again. */
function NotLoaded() {
  const [isDown, setDown] = useState(false);
  useEffect(() => {
    const leaving = new AbortController();
    let wasDown = false;
    const look = async () => {
      const answers = await gatewayAnswers(leaving.signal);
      if (leaving.signal.aborted) return;
      if (answers && wasDown) location.reload();
      wasDown ||= !answers;
      setDown(wasDown);
    };
    void look();
    const timer = setInterval(look, LOOKS_AGAIN_MS);
    return () => {
      leaving.abort();
      clearInterval(timer);
    };
  }, []);
  return (
    <EmptyState title={isDown ? 'The gateway does not answer.' : 'This page could not be loaded.'}>
      <p>
        {isDown
          ? 'The page is loaded when it answers again. Check that it is running.'
          : 'The gateway may have been updated.'}
      </p>
      <div>
        <Button look="main" onClick={() => location.reload()}>
          Load the document again
        </Button>
      </div>
    </EmptyState>
  );
}

async function gatewayAnswers(signal: AbortSignal): Promise<boolean> {
  try {
    const answer = await fetch(`${basePath}/health`, { signal, credentials: 'omit', cache: 'no-store' });
    return answer.ok;
  } catch {
    return false;
  }
}

let isFirstPage = true;

/**
 * After a navigation to another page, or to another record of the same page, the focus is on its heading, so that
 * screen readers announce it. A change of the query leaves the focus where it is.
 */
function useFocusOnNavigation(isShown: boolean, id: string): void {
  const focused = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (!isShown || focused.current === id) return;
    focused.current = id;
    if (isFirstPage) isFirstPage = false;
    else document.querySelector<HTMLElement>('#content h1')?.focus();
  }, [isShown, id]);
}

function UnknownPage() {
  return (
    <>
      <h1>No such page</h1>
      <EmptyState title="This address has no page.">
        <p>
          <a href={hrefOf('/')}>Overview</a>
        </p>
      </EmptyState>
    </>
  );
}
