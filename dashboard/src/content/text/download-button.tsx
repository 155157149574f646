import { Button } from '../../ui/button.tsx';

interface DownloadButtonProps {
  readonly parts: readonly (string | Uint8Array)[];
  readonly fileName: string;
  readonly children?: string;
}

/** Saves recorded content as a file. Its type is always a stream of bytes: the browser must not open it. */
export function DownloadButton({ parts, fileName, children = 'Download' }: DownloadButtonProps) {
  return <Button onClick={() => download(parts, fileName)}>{children}</Button>;
}

function download(parts: readonly (string | Uint8Array)[], fileName: string): void {
  const url = URL.createObjectURL(new Blob([...parts] as BlobPart[], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = safeFileName(fileName);
  link.click();
  URL.revokeObjectURL(url);
}

/** Names in recorded content can contain paths and invisible characters. */
function safeFileName(name: string): string {
  const safe = name
    .replace(/[^\p{L}\p{N}._ -]+/gu, '_')
    .replace(/^[. ]+/, '')
    .slice(-120);
  return safe === '' ? 'file' : safe;
}
