/** Certificates for servers of tests, made by openssl. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  /** Paths of PEM files. */
  readonly certFile: string;
  readonly keyFile: string;
  /** Their texts. */
  readonly cert: string;
  readonly key: string;
}

export interface Authority {
  /** Its own certificate. */
  readonly ca: Certificate;
  /** @param names as in `DNS:localhost,IP:127.0.0.1` */
  issue(subject: string, names: string): Certificate;
  remove(): void;
}

const elliptic = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** The reason why there are no certificates; undefined when there are. */
export function missingOpenssl(): string | undefined {
  return spawnSync('openssl', ['version']).status === 0 ? undefined : 'there is no openssl, which makes certificates';
}

export function createAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-certificates-'));
  const files = (name: string) => ({ certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) });
  const ca = files('ca');
  const extensions = ['-addext', 'basicConstraints=critical,CA:TRUE'];
  openssl('req', '-x509', ...elliptic, '-days', '2', '-subj', '/CN=authority', ...extensions, ...outputs(ca));
  let issued = 0;
  return {
    ca: withTexts(ca),
    issue(subject, names) {
      const made = files(`issued-${++issued}`);
      const [request, settings] = [join(folder, 'request'), join(folder, 'settings')];
      openssl('req', '-new', ...elliptic, '-subj', `/CN=${subject}`, '-keyout', made.keyFile, '-out', request);
      writeFileSync(settings, `subjectAltName=${names}\n`);
      const signer = ['-CA', ca.certFile, '-CAkey', ca.keyFile, '-CAcreateserial'];
      openssl('x509', '-req', '-in', request, ...signer, '-days', '2', '-extfile', settings, '-out', made.certFile);
      return withTexts(made);
    },
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}

function outputs({ certFile, keyFile }: Pick<Certificate, 'certFile' | 'keyFile'>): string[] {
  return ['-keyout', keyFile, '-out', certFile];
}

function openssl(...words: string[]): void {
  execFileSync('openssl', words, { stdio: 'pipe' });
}

function withTexts(files: Pick<Certificate, 'certFile' | 'keyFile'>): Certificate {
  return { ...files, cert: readFileSync(files.certFile, 'utf8'), key: readFileSync(files.keyFile, 'utf8') };
}
