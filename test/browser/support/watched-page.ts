/**
 * A page that is watched: errors on the console, uncaught errors, violations of the Content Security Policy, refused
 * answers and requests to other origins are collected from the first document on.
 */
import type { BrowserContext, Page, Request, Response } from 'playwright-core';

export interface Finding {
  readonly kind: 'console' | 'error' | 'csp' | 'other origin' | 'crash' | 'dialog';
  readonly text: string;
}

export interface AnsweredRequest {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly status: number;
}

export interface WatchedPage {
  readonly page: Page;
  /** Everything that must not happen, in the order in which it happened. */
  readonly findings: readonly Finding[];
  /** Every answer of the gateway. */
  readonly answers: readonly AnsweredRequest[];
  /** Removes the findings that a test has caused on purpose. */
  expectFindings(matches: (finding: Finding) => boolean): Finding[];
}

declare const window: { reportViolation(text: string): void };
declare const document: {
  addEventListener(
    type: 'securitypolicyviolation',
    listener: (event: { violatedDirective: string; blockedURI: string; sourceFile: string; sample: string }) => void,
  ): void;
};

/** @param origin of the gateway; a request to any other origin is a finding */
export async function watchedPage(context: BrowserContext, origin: string): Promise<WatchedPage> {
  const findings: Finding[] = [];
  const answers: AnsweredRequest[] = [];
  const page = await context.newPage();
  await page.exposeFunction('reportViolation', (text: string) => findings.push({ kind: 'csp', text }));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile, sample }) =>
      window.reportViolation(`${violatedDirective} blocked ${blockedURI} in ${sourceFile}: ${sample}`),
    );
  });
  page.on('console', (message) => {
    const { url, lineNumber } = message.location();
    if (message.type() === 'error' || message.type() === 'warning')
      findings.push({ kind: 'console', text: `${message.type()}: ${message.text()} (${url}:${lineNumber})` });
  });
  page.on('pageerror', (error) => findings.push({ kind: 'error', text: error.stack ?? error.message }));
  page.on('crash', () => findings.push({ kind: 'crash', text: page.url() }));
  page.on('dialog', (dialog) => {
    findings.push({ kind: 'dialog', text: `${dialog.type()}: ${dialog.message()}` });
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const elsewhere = otherOrigin(request, origin);
    if (elsewhere !== undefined) findings.push({ kind: 'other origin', text: elsewhere });
  });
  page.on('response', (response) => {
    const answer = answerOf(response, origin);
    if (answer !== undefined) answers.push(answer);
  });
  return {
    page,
    findings,
    answers,
    expectFindings(matches) {
      const expected = findings.filter(matches);
      for (const finding of expected) findings.splice(findings.indexOf(finding), 1);
      return expected;
    },
  };
}

function otherOrigin(request: Request, origin: string): string | undefined {
  const url = request.url();
  if (/^(?:data|blob|about):/.test(url) || new URL(url).origin === origin) return undefined;
  return `${request.method()} ${url} (${request.resourceType()})`;
}

function answerOf(response: Response, origin: string): AnsweredRequest | undefined {
  const url = new URL(response.url());
  if (url.origin !== origin) return undefined;
  return { method: response.request().method(), path: url.pathname + url.search, status: response.status() };
}
