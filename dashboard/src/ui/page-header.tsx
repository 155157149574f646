import './page-header.css';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { access } from '../api/access.ts';
import { visibleText } from '../content/text/hidden-characters.ts';

interface PageHeaderProps {
  /** May be a recorded name: hidden characters are shown as marks. */
  readonly title: string;
  /** Of the browser's tab; default: the title. */
  readonly tabTitle?: string;
  /** Actions and choices of the page. */
  readonly children?: ComponentChildren;
}

/** The heading of a page. It states the administered subtree, so that no figure is taken for everything. */
export function PageHeader({ title, tabTitle = title, children }: PageHeaderProps) {
  useEffect(() => {
    document.title = `${visibleText(tabTitle)} · Chancery`;
  }, [tabTitle]);
  const scope = access.value?.userPath;
  return (
    <header class="page-header">
      <div class="page-header-title">
        <h1 tabIndex={-1}>
          <bdi>{visibleText(title)}</bdi>
        </h1>
        {scope !== undefined && (
          <p class="page-header-scope">
            You see <code>{scope}</code> and paths below it.
          </p>
        )}
      </div>
      {children !== undefined && <div class="page-header-actions">{children}</div>}
    </header>
  );
}
