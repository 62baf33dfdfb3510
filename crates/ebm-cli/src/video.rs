//! Reads videos frame by frame and makes videos from pictures, with the programs ffprobe and ffmpeg.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use ebm_data::Image;
use ebm_data::decode::DecodeLimits;
use ebm_data::files::write_atomic;
use serde_json::Value;

/// Number of bytes of ffmpeg's error messages that are kept.
const COMPLAINT: u64 = 4096;

/// Video that is being read, upright, at a constant number of frames per second.
pub struct Video {
    path: PathBuf,
    /// Frames per second.
    pub rate: f64,
    /// Approximate number of frames; `None` if the file does not tell.
    pub expected: Option<usize>,
    ffmpeg: Child,
    frames: BufReader<ChildStdout>,
    complaint: Option<JoinHandle<String>>,
    read: usize,
}

impl Video {
    /// Opens a video.
    ///
    /// # Errors
    /// If ffmpeg is not installed or cannot read the file.
    pub fn open(path: &Path) -> Result<Self> {
        let (rate, expected) = probe(path)?;
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file", "-i"]).arg(url(path));
        ffmpeg.args(["-map", "0:v:0", "-r", &rate, "-f", "image2pipe", "-c:v", "ppm", "-"]);
        ffmpeg.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ffmpeg = ffmpeg.spawn().with_context(|| missing(path))?;
        let (Some(frames), Some(mut errors)) = (ffmpeg.stdout.take(), ffmpeg.stderr.take()) else {
            bail!("{}: ffmpeg has no output", path.display());
        };
        // The messages are read in a thread of their own, since ffmpeg waits when its pipe is full.
        let complaint = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = errors.by_ref().take(COMPLAINT).read_to_end(&mut said);
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&said).into_owned()
        });
        let (path, frames) = (path.to_owned(), BufReader::new(frames));
        let rate = number(&rate).unwrap_or(1.0);
        Ok(Self { path, rate, expected, ffmpeg, frames, complaint: Some(complaint), read: 0 })
    }

    /// Returns the next frame at the rate [`rate`](Self#structfield.rate), or `None` after the last. Prints ffmpeg's
    /// warnings at the end.
    ///
    /// # Errors
    /// If ffmpeg fails or the video has no frame.
    pub fn frame(&mut self) -> Result<Option<Image>> {
        let frame =
            ppm(&mut self.frames).map_err(|error| broken(&self.path, &format!("a frame: {error:#}")))?;
        if frame.is_some() {
            self.read += 1;
            return Ok(frame);
        }
        let path = self.path.display();
        let Some(complaint) = self.complaint.take() else { return Ok(None) };
        let status = self.ffmpeg.wait().with_context(|| format!("{path}: ffmpeg"))?;
        let said = complaint.join().unwrap_or_default();
        ensure!(status.success() && self.read > 0, broken(&self.path, &said));
        if !said.is_empty() {
            eprintln!("{path}: ffmpeg says: {}", one_line(&said));
        }
        Ok(None)
    }
}

impl Drop for Video {
    fn drop(&mut self) {
        // ffmpeg has ended already if all frames were read.
        let _ = self.ffmpeg.kill();
        let _ = self.ffmpeg.wait();
    }
}

/// Returns the number of frames per second as a fraction, and the number of frames, if the file tells it.
fn probe(path: &Path) -> Result<(String, Option<usize>)> {
    let entries = "stream=avg_frame_rate,r_frame_rate,nb_frames:format=duration";
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-protocol_whitelist", "file", "-select_streams", "v:0", "-of", "json"])
        .args(["-show_entries", entries])
        .arg(url(path))
        .output()
        .with_context(|| missing(path))?;
    ensure!(output.status.success(), broken(path, &String::from_utf8_lossy(&output.stderr)));
    let found: Value = serde_json::from_slice(&output.stdout).context("cannot read the output of ffprobe")?;
    let stream = &found["streams"][0];
    let rates = ["avg_frame_rate", "r_frame_rate"].map(|key| stream[key].as_str().unwrap_or_default());
    let rate = rates.into_iter().find(|rate| number(rate).is_some());
    let rate = rate.ok_or_else(|| broken(path, "it has no video stream with a frame rate"))?;
    let told = |value: &Value| value.as_str()?.parse::<f64>().ok();
    let lasting = || Some(told(&found["format"]["duration"])? * number(rate)?);
    let expected = told(&stream["nb_frames"]).or_else(lasting).filter(|count| count.is_finite());
    Ok((rate.to_owned(), expected.map(|count| count.round() as usize)))
}

/// Parses a positive fraction such as 30000/1001.
fn number(fraction: &str) -> Option<f64> {
    let (over, under) = fraction.split_once('/').unwrap_or((fraction, "1"));
    let value = over.parse::<f64>().ok()? / under.parse::<f64>().ok()?;
    (value > 0.0 && value.is_finite()).then_some(value)
}

/// Returns the error for a file that is no video or is damaged.
fn broken(path: &Path, detail: &str) -> anyhow::Error {
    let (path, detail) = (path.to_owned(), one_line(detail));
    ebm_data::Error::format(path, "a video that ffmpeg reads", detail).into()
}

fn one_line(said: &str) -> String {
    said.trim().replace('\n', "; ")
}

fn missing(path: &Path) -> String {
    format!(
        "{}: videos are read by ffmpeg and ffprobe; install ffmpeg, or give the frames as images",
        path.display()
    )
}

/// Returns the path as a `file:` URL, so that ffmpeg takes it neither for an option nor for another protocol.
fn url(path: &Path) -> OsString {
    let mut url = OsString::from("file:");
    url.push(path);
    url
}

/// Reads the next picture of a stream in netpbm's colour format, or `None` at the end.
fn ppm(frames: &mut impl BufRead) -> Result<Option<Image>> {
    const HEADER: u64 = 32;
    if frames.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut header = Vec::new();
    for _ in 0..3 {
        frames.by_ref().take(HEADER).read_until(b'\n', &mut header)?;
    }
    let words: Vec<&str> = std::str::from_utf8(&header)?.split_whitespace().collect();
    let &["P6", width, height, "255"] = words.as_slice() else {
        bail!("{words:?} is no header of a picture")
    };
    let (width, height) = (width.parse::<usize>()?, height.parse::<usize>()?);
    let most = DecodeLimits::default().max_pixels;
    let area = width.checked_mul(height).filter(|&area| area <= most);
    let area = area.with_context(|| format!("{width}x{height} pixels are more than {most}"))?;
    let mut pixels = vec![0; 3 * area];
    frames.read_exact(&mut pixels).context("it is cut off")?;
    Ok(Some(Image::new(width, height, pixels)?))
}

/// Makes a video from pictures in one folder at `rate` frames per second, if ffmpeg is installed. Otherwise says where
/// the pictures are.
pub fn make(video: &Path, pictures: &[PathBuf], rate: f64) -> Result<()> {
    let Some(folder) = pictures.first().and_then(|path| path.parent()) else { return Ok(()) };
    // The pictures are numbered by frame, with gaps, which ffmpeg only takes as a list.
    let list = folder.join("pictures.txt");
    let mut text = String::new();
    for path in pictures {
        // A quotation mark in a name must stand outside the quoted part.
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace('\'', r"'\''");
        text.push_str(&format!("file '{name}'\nduration {}\n", 1.0 / rate));
    }
    write_atomic(&list, text.as_bytes())?;
    let run = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-f", "concat", "-safe", "0", "-i"])
        .arg(url(&list))
        .args(["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"])
        .arg(url(video))
        .output();
    match run {
        Ok(output) if output.status.success() => eprintln!("{}", video.display()),
        Ok(output) => eprintln!("ffmpeg made no video: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(_) => {
            eprintln!(
                "the pictures are in {}; ffmpeg is not installed, so there is no video",
                folder.display()
            );
        }
    }
    std::fs::remove_file(&list).with_context(|| format!("cannot remove {}", list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_follow_one_another() {
        let mut bytes = &b"P6\n2 1\n255\n\n\n\n123P6\n1 1\n255\nabcP6\n1 1\n255\nab"[..];
        let first = ppm(&mut bytes).unwrap().unwrap();
        assert_eq!((first.width, first.height, &first.pixels[..]), (2, 1, &b"\n\n\n123"[..]));
        assert_eq!(ppm(&mut bytes).unwrap().unwrap().pixels, b"abc");
        assert!(format!("{:#}", ppm(&mut bytes).unwrap_err()).contains("cut off"));
        assert!(ppm(&mut &b""[..]).unwrap().is_none());
        for other in [&b"P5\n1 1\n255\na"[..], b"P6\n70000 70000\n255\n", b"P6\n1 1\n65535\n", &[b'P'; 100]] {
            assert!(ppm(&mut &other[..]).is_err());
        }
    }

    #[test]
    fn a_rate_is_a_fraction() {
        assert_eq!(number("25/1"), Some(25.0));
        assert_eq!(number("30000/1001").map(|rate| (rate * 1001.0).round()), Some(30_000.0));
        assert_eq!(["0/0", "0/1", "", "x", "-1/1"].map(number), [None; 5]);
    }
}
