import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { EngineUnsuitable } from './engine.ts';
import type { LogEngineAccess } from './engine-access.ts';

/** @throws EngineUnsuitable. Node ignores an authority that is not a certificate. */
export function checkTlsTexts({ ca, cert, key }: LogEngineAccess): void {
  check('LOG_TLS_CA', 'has no certificate', () => ca === undefined || new X509Certificate(ca));
  check('LOG_TLS_CERT', 'has no certificate', () => cert === undefined || new X509Certificate(cert));
  if (cert === undefined || key === undefined) return;
  check('LOG_TLS_KEY', 'is not the key of LOG_TLS_CERT', () => createSecureContext({ cert, key }));
}

function check(setting: string, problem: string, parse: () => unknown): void {
  try {
    parse();
  } catch {
    // The error could contain the text.
    throw new EngineUnsuitable(`the file of ${setting} ${problem}`);
  }
}
