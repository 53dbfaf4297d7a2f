//! Date and time in templates, as by Python's `datetime.now().strftime(…)`.

use std::fmt::Write;

/// Local time in seconds since 1970.
pub(crate) fn local_seconds() -> u64 {
    let now = web_time::SystemTime::now().duration_since(web_time::SystemTime::UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    seconds.saturating_add_signed(offset(seconds))
}

/// Returns the offset of local time from UTC at a moment, in seconds.
#[cfg(target_family = "wasm")]
fn offset(seconds: u64) -> i64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "dates are far from where doubles end, offsets are minutes"
    )]
    let minutes_behind =
        js_sys::Date::new(&(seconds as f64 * 1000.0).into()).get_timezone_offset() as i64;
    -60 * minutes_behind
}

/// Returns the offset of local time from UTC at a moment, in seconds.
#[cfg(unix)]
#[allow(
    clippy::useless_conversion,
    reason = "a C `long` has 32 bits on some machines"
)]
fn offset(seconds: u64) -> i64 {
    let Ok(seconds) = libc::time_t::try_from(seconds) else {
        return 0;
    };
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and an all-zero `tm` is valid.
    unsafe {
        libc::localtime_r(&raw const seconds, local.as_mut_ptr());
        local.assume_init().tm_gmtoff.into()
    }
}

/// Returns the offset of local time from UTC, in seconds; on Windows that of today at any moment.
#[cfg(windows)]
fn offset(seconds: u64) -> i64 {
    /// Ticks of the system's clock in a second.
    const TICKS: u64 = 10_000_000;
    /// Seconds from its beginning, the year 1601, to 1970.
    const BEFORE: u64 = 11_644_473_600;
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn FileTimeToLocalFileTime(universal: *const u64, local: *mut u64) -> i32;
    }
    let universal = seconds.saturating_add(BEFORE).saturating_mul(TICKS);
    let mut local = universal;
    // SAFETY: both pointers are valid for the call; the system's pair of halves is such a number.
    unsafe { FileTimeToLocalFileTime(&raw const universal, &raw mut local) };
    let seconds = local.abs_diff(universal).div_ceil(TICKS).cast_signed();
    if local < universal { -seconds } else { seconds }
}

/// Elsewhere templates write UTC.
#[cfg(not(any(unix, windows, target_family = "wasm")))]
fn offset(_seconds: u64) -> i64 {
    0
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The C library's `strftime` in the C locale, for dates and times without a zone.
pub(crate) fn strftime(format: &str, seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let of_year = days - days_to_year(year);
    let (from_sunday, from_monday) = ((days + 4) % 7, (days + 3) % 7);
    let thursday = days + 3 - from_monday;
    let weekday = DAYS[usize::try_from(from_sunday).unwrap_or(0)];
    let month_name = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let twelve = (hour + 11) % 12 + 1;
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut code = letters.next();
        // `%-d`: without the leading zero.
        let bare = code == Some('-');
        if bare {
            code = letters.next();
        }
        let mut number = |value: u64, width: usize| {
            let width = if bare { 0 } else { width };
            let _ = write!(text, "{value:0width$}");
        };
        match code {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number(twelve, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(of_year + 1, 3),
            Some('B') => text.push_str(month_name),
            Some('b' | 'h') => text.push_str(&month_name[..3]),
            Some('A') => text.push_str(weekday),
            Some('a') => text.push_str(&weekday[..3]),
            Some('p') => text.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('F') => text.push_str(&strftime("%Y-%m-%d", seconds)),
            Some('T') => text.push_str(&strftime("%H:%M:%S", seconds)),
            Some('D' | 'x') => text.push_str(&strftime("%m/%d/%y", seconds)),
            Some('R') => text.push_str(&strftime("%H:%M", seconds)),
            Some('X') => text.push_str(&strftime("%H:%M:%S", seconds)),
            Some('c') => text.push_str(&strftime("%a %b %e %H:%M:%S %Y", seconds)),
            Some('e') => {
                let _ = write!(text, "{day:>2}");
            }
            Some('f') => text.push_str("000000"),
            Some('w') => number(from_sunday, 1),
            Some('u') => number(from_monday + 1, 1),
            // Weeks from the first Sunday, or Monday.
            Some('U') => number((of_year + 7 - from_sunday) / 7, 2),
            Some('W') => number((of_year + 7 - from_monday) / 7, 2),
            // A week belongs to the year of its Thursday.
            Some('G') => number(date(thursday).0, 4),
            Some('V') => number((thursday - days_to_year(date(thursday).0)) / 7 + 1, 2),
            Some('Z' | 'z') => {}
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}

/// Days from 1970 to the first of January of `year`.
fn days_to_year(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

/// Year, month and day of a day counted from 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_to_year(year + 1) <= days {
        year += 1;
    }
    let leap = days_to_year(year + 1) - days_to_year(year) == 366;
    let mut day = days - days_to_year(year);
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    for (month, length) in (1..).zip(lengths) {
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_whole_quarters_of_an_hour_from_utc() {
        let offset = offset(1_732_156_800);
        assert!(offset % 900 == 0 && offset.abs() <= 14 * 3600, "{offset}");
    }

    #[test]
    fn dates_are_the_calendar_s() {
        assert_eq!(strftime("%d %b %Y", 0), "01 Jan 1970");
        assert_eq!(
            strftime("%Y-%m-%d %H:%M:%S %A %j", 951_825_599),
            "2000-02-29 11:59:59 Tuesday 060"
        );
        assert_eq!(
            strftime("%-d %B %y, %I %p %% %q", 4_102_444_799),
            "31 December 99, 11 PM % %q"
        );
        assert_eq!(
            strftime("%F %T %a", 1_732_156_800),
            "2024-11-21 02:40:00 Thu"
        );
        assert_eq!(
            strftime("%c|%D|%R|%w%u%Z", 1_730_512_745),
            "Sat Nov  2 01:59:05 2024|11/02/24|01:59|66"
        );
        for (year, wanted) in [
            (2026, "2026-01-01 00 00 2026 01"),
            (2023, "2023-01-01 01 00 2022 52"),
            (2021, "2021-01-01 00 00 2020 53"),
            (2024, "2024-01-01 00 01 2024 01"),
        ] {
            let seconds = days_to_year(year) * 86_400;
            assert_eq!(strftime("%F %U %W %G %V", seconds), wanted);
        }
        assert_eq!(
            strftime("%F %U %W %G %V", 1_735_603_200),
            "2024-12-31 52 53 2025 01"
        );
    }
}
