import { useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { DownloadButton } from '../text/download-button.tsx';
import { Pieces } from '../text/pieces.tsx';
import { beginningOfText, SafeText } from '../text/safe-text.tsx';
import type { Media } from './turn.ts';

interface MediaChipProps {
  readonly kind: 'image' | 'audio' | 'file';
  readonly media: Media;
  readonly name: string | undefined;
  readonly transcript: string | undefined;
}

/** Formats without scripts and without references to other documents. */
const displayed = /^image\/(?:png|jpe?g|gif|webp|avif)$/i;
const words = { image: 'Image', audio: 'Audio', file: 'File' } as const;

/**
 * Media of a message. An image that is part of the record is shown on request; a URL is shown as text and never loaded:
 * loading it would tell another host who reads the record.
 */
export function MediaChip({ kind, media, name, transcript }: MediaChipProps) {
  return (
    <div class="media-chip">
      <p>
        <span class="turn-chip">{words[kind]}</span>
        {name !== undefined && <Pieces text={beginningOfText(name, 160)} />}
        {media.kind === 'file' && (
          <code>
            <Pieces text={beginningOfText(media.id, 120)} />
          </code>
        )}
        {media.kind === 'none' && name === undefined && <span>Not recorded</span>}
      </p>
      {media.kind === 'url' && (
        <div class="media-url">
          <span>Not loaded: </span>
          <SafeText text={media.url} look="code" />
        </div>
      )}
      {media.kind === 'data' && <RecordedData kind={kind} media={media} name={name} />}
      {transcript !== undefined && <SafeText text={transcript} placeholders />}
    </div>
  );
}

function RecordedData({
  kind,
  media,
  name,
}: {
  readonly kind: string;
  readonly media: Extract<Media, { kind: 'data' }>;
  readonly name: string | undefined;
}) {
  const [shown, setShown] = useState(false);
  const [failed, setFailed] = useState(false);
  const { mediaType, base64 } = media;
  const canShow = kind === 'image' && displayed.test(mediaType) && /^[A-Za-z0-9+/=\s]*$/.test(base64);
  const bytes = Math.floor((base64.length * 3) / 4);
  return (
    <div class="media-data">
      <span>
        <Pieces text={beginningOfText(mediaType, 80)} />, {formatCount(bytes)} bytes
      </span>
      {canShow && (
        <Button expanded={shown} onClick={() => setShown(!shown)}>
          {shown ? 'Hide image' : 'Show image'}
        </Button>
      )}
      <DownloadData base64={base64} fileName={name ?? `${kind}.${extensionOf(mediaType)}`} />
      {shown && !failed && (
        <div class="media-frame">
          <img
            class="media-image"
            src={`data:${mediaType.toLowerCase()};base64,${base64}`}
            alt="Recorded in this exchange"
            onError={() => setFailed(true)}
          />
        </div>
      )}
      {shown && failed && <p>The browser cannot display this image.</p>}
    </div>
  );
}

function extensionOf(mediaType: string): string {
  return /^[a-z]+\/([a-z0-9]{1,8})$/.exec(mediaType)?.[1] ?? 'bin';
}

function DownloadData({ base64, fileName }: { readonly base64: string; readonly fileName: string }) {
  const [bytes, setBytes] = useState<Uint8Array | 'invalid'>();
  if (bytes === 'invalid') return <span>Not valid base64</span>;
  if (bytes !== undefined) return <DownloadButton parts={[bytes]} fileName={fileName} />;
  return <Button onClick={() => setBytes(decodeBase64(base64))}>Prepare download</Button>;
}

function decodeBase64(base64: string): Uint8Array | 'invalid' {
  try {
    const binary = atob(base64);
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return 'invalid';
  }
}
