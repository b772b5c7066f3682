// A file for calendars (RFC 5545) with the start of a sale, and an alarm five minutes before.
export function calendarFile(sale, url, t) {
  const stamp = (at) => new Date(at).toISOString().replace(/[-:]|\.\d+/g, '');
  const text = (s) => s.replace(/[\\;,]/g, '\\$&').replace(/\r?\n/g, '\\n');
  const title = text(t('remind.title', { title: sale.title }));
  const lines = [
    'BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//miaosha//sale//EN', 'METHOD:PUBLISH', 'BEGIN:VEVENT',
    `UID:sale-${sale.id}@${location.hostname}`, 'DTSTAMP:' + stamp(Date.now()), 'DTSTART:' + stamp(sale.start_at), 'DTEND:' + stamp(sale.end_at),
    'SUMMARY:' + title, 'DESCRIPTION:' + text(url), 'URL:' + url,
    'BEGIN:VALARM', 'ACTION:DISPLAY', 'TRIGGER:-PT5M', 'DESCRIPTION:' + title, 'END:VALARM',
    'END:VEVENT', 'END:VCALENDAR',
  ];
  return new Blob([lines.map(fold).join('')], { type: 'text/calendar;charset=utf-8' });
}

// fold ends a line, and cuts it into parts of at most 75 bytes, none within a character.
function fold(line) {
  let out = '';
  let size = 0;
  for (const c of line) {
    const bytes = new TextEncoder().encode(c).length;
    if (size + bytes > 73) {
      out += '\r\n ';
      size = 0;
    }
    out += c;
    size += bytes;
  }
  return out + '\r\n';
}
