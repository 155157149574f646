import './shell.css';
import type { ComponentType } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import { isGlobal } from '../api/access.ts';
import { ApiError } from '../api/client.ts';
import { Button } from '../ui/button.tsx';
import { EmptyState, ErrorPanel } from '../ui/states.tsx';
import { HealthBanner } from './health-banner.tsx';
import { Help } from './help.tsx';
import { overlay } from './keys.ts';
import { type PageEntry, type PageProps, pageOf, pages } from './pages.ts';
import { Palette } from './palette.tsx';
import { hrefOf, route } from './router.ts';
import { Settings } from './settings.tsx';

/** Navigation, settings, and the page of the address. */
export function Shell() {
  const shown = pageOf(route.value.path);
  return (
    <div class="shell">
      <a class="shell-skip" href="#content">
        Skip to content
      </a>
      <header class="shell-side">
        <p class="shell-name">Chancery</p>
        <nav aria-label="Pages">
          <ul>
            {pages.filter(isOffered).map(({ name, title, path, letter }) => (
              <li key={name}>
                <a
                  href={hrefOf(path)}
                  aria-current={shown?.page.name === name ? 'page' : undefined}
                  aria-keyshortcuts={letter === undefined ? undefined : `g ${letter}`}
                >
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <Settings />
      </header>
      <main class="shell-main" id="content" tabIndex={-1}>
        <HealthBanner />
        {shown === undefined ? <UnknownPage /> : <LazyPage key={shown.page.name} page={shown.page} id={shown.id} />}
      </main>
      {overlay.value === 'palette' && <Palette />}
      {overlay.value === 'help' && <Help />}
    </div>
  );
}

function isOffered({ inNavigation, globalOnly }: PageEntry): boolean {
  return inNavigation && (globalOnly !== true || isGlobal.value);
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
  if (failed) {
    return (
      <EmptyState title="This page could not be loaded.">
        <p>The gateway may have been updated.</p>
        <div>
          <Button look="main" onClick={() => location.reload()}>
            Load the document again
          </Button>
        </div>
      </EmptyState>
    );
  }
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
