/** How clients reach the server: through which proxies, and with which certificate. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readBoundedFile } from './bounded-file.ts';
import type { Problem, RawSettings } from './problem.ts';
import type { FileSettings } from './schema.ts';

type ServerSettings = FileSettings['server'];

export function proxyConfig({ trusted_proxies, client_address_header, proxy_protocol }: ServerSettings) {
  return {
    proxies: {
      /** Networks whose headers state the client. */
      networks: trusted_proxies.filter((network) => network !== 'unix'),
      /** Whether peers of a Unix socket do. */
      local: trusted_proxies.includes('unix'),
      header: client_address_header.toLowerCase(),
    },
    /** Whether their connections begin with a header of the PROXY protocol. */
    proxyProtocol: proxy_protocol,
  };
}

/** Paths are absolute. Undefined: no TLS. */
export function tlsConfig({ tls }: ServerSettings, cwd: string) {
  const { cert_file: cert, key_file: key, client_ca_file: ca, client_auth: clientAuth } = tls;
  if (cert === undefined || key === undefined) return undefined;
  const clientCaFile = ca === undefined ? undefined : resolve(cwd, ca);
  return { certFile: resolve(cwd, cert), keyFile: resolve(cwd, key), clientCaFile, clientAuth };
}

/** Whether no process can listen at both. */
function overlap(one: { host: string; port: number }, other: { host: string; port: number }): boolean {
  if (one.host.startsWith('unix:') || other.host.startsWith('unix:')) return one.host === other.host;
  if (one.port !== other.port || one.port === 0) return false;
  const [first, second] = [one, other].map(({ host }) => (host === 'localhost' ? '127.0.0.1' : host));
  const covers = (wide: string | undefined, host = '') => wide === '::' || (wide === '0.0.0.0' && !host.includes(':'));
  return first === second || covers(first, second) || covers(second, first);
}

/** Settings that contradict or need another one. */
export function serverProblems(server: ServerSettings, raw: RawSettings): Problem[] {
  const { proxy_protocol, trusted_proxies, tls, admin_listen } = server;
  const { cert_file: cert, key_file: key, client_ca_file: ca, client_auth: auth } = tls;
  const hasProxies = trusted_proxies.length > 0;
  const isTwice = admin_listen !== undefined && overlap(admin_listen, server);
  const rules = [
    [isTwice, 'admin_listen', 'ADMIN_LISTEN', 'HOST and PORT are this address already: choose another one'],
    [proxy_protocol && !hasProxies, 'proxy_protocol', 'PROXY_PROTOCOL', 'it is read from TRUSTED_PROXIES only'],
    [cert === undefined && key !== undefined, 'tls.cert_file', 'TLS_CERT_FILE', 'TLS_KEY_FILE needs a certificate'],
    [cert !== undefined && key === undefined, 'tls.key_file', 'TLS_KEY_FILE', 'TLS_CERT_FILE needs its key'],
    [ca !== undefined && cert === undefined, 'tls.client_ca_file', 'TLS_CLIENT_CA_FILE', 'it needs TLS_CERT_FILE'],
    [auth === 'required' && ca === undefined, 'tls.client_auth', 'TLS_CLIENT_AUTH', 'it needs TLS_CLIENT_CA_FILE'],
  ] as const;
  return rules.flatMap(([isBroken, path, variable, why]) =>
    isBroken ? [raw.problem(`server.${path}`, variable, why)] : [],
  );
}

interface FilesOfServer {
  readonly host: string;
  readonly adminListen: { readonly host: string } | undefined;
  readonly tls: ReturnType<typeof tlsConfig>;
}

/** What is wrong with the files that the server reads at its start, and with the folders of its sockets. */
export function fileProblems({ host, adminListen, tls }: FilesOfServer, raw: RawSettings): Problem[] {
  const addresses = [
    ['host', 'HOST', host],
    ['admin_listen', 'ADMIN_LISTEN', adminListen?.host],
  ] as const;
  for (const [key, variable, address] of addresses) {
    const folder = address?.startsWith('unix:') ? dirname(address.slice('unix:'.length)) : '/';
    if (!existsSync(folder)) return [raw.problem(`server.${key}`, variable, `the folder ${folder} does not exist`)];
  }
  if (tls === undefined) return [];
  let certificate: X509Certificate | undefined;
  const readKey = (pem: Buffer) => {
    if (!certificate?.checkPrivateKey(createPrivateKey(pem))) throw new Error('it is not the key of TLS_CERT_FILE');
  };
  const readCertificate = (pem: Buffer) => {
    const read = new X509Certificate(pem);
    certificate ??= read;
  };
  const files = [
    ['cert_file', 'TLS_CERT_FILE', tls.certFile, readCertificate],
    ['key_file', 'TLS_KEY_FILE', tls.keyFile, readKey],
    ['client_ca_file', 'TLS_CLIENT_CA_FILE', tls.clientCaFile, readCertificate],
  ] as const;
  for (const [key, variable, file, read] of files) {
    try {
      if (file !== undefined) read(readBoundedFile(file));
    } catch (error) {
      return [raw.problem(`server.tls.${key}`, variable, `${file} cannot be used: ${(error as Error).message}`)];
    }
  }
  return [];
}

/** The certificates in force that clients or the server will not accept at `now`. The files can be used: see `fileProblems`. */
export function certificateWarnings(tls: ReturnType<typeof tlsConfig>, now = new Date()): string[] {
  const files = [
    ['TLS_CERT_FILE', tls?.certFile],
    ['TLS_CLIENT_CA_FILE', tls?.clientCaFile],
  ] as const;
  return files.flatMap(([variable, file]) => {
    if (file === undefined) return [];
    const { validFromDate, validToDate } = new X509Certificate(readBoundedFile(file));
    const named = `${variable}: the certificate in ${file}`;
    if (validToDate < now) return [`${named} expired at ${validToDate.toISOString()}`];
    return validFromDate > now ? [`${named} is not valid before ${validFromDate.toISOString()}`] : [];
  });
}
