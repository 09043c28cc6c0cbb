"""Language names and language detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.errors import MissingExtraError

DETECTION_CHARACTERS = 2000  # of a text; the rest is not used
NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian",
    "bg": "Bulgarian", "bn": "Bengali", "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech",
    "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean",
    "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lo": "Lao", "lt": "Lithuanian",
    "lv": "Latvian", "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian",
    "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch",
    "nn": "Norwegian Nynorsk", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian",
    "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu",
    "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese", "xh": "Xhosa", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if the name is unknown."""
    return NAMES.get(code, code)


@dataclass(frozen=True)
class DetectedLanguage:
    """A language and the confidence of its detection, from 0 to 100."""

    language: str
    confidence: float


class LanguageDetector:
    """Detects which of the served source languages a text is in; it never returns another one."""

    def __init__(self, languages: Sequence[str]) -> None:
        try:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier
        except ImportError as error:
            raise MissingExtraError("py3langid", "serve", "Language detection") from error
        self.identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self.languages = sorted(set(languages))
        self.known = [language for language in self.languages if language in self.identifier.nb_classes]
        if self.known:
            self.identifier.set_languages(self.known)

    def rank(self, text: str) -> list[DetectedLanguage]:
        """Return the served languages, the most probable one for a text first."""
        if len(self.languages) == 1 or not self.known:
            confidence = 100.0 if len(self.languages) == 1 else 0.0
            return [DetectedLanguage(language, confidence) for language in self.languages]
        ranked = self.identifier.rank(text[:DETECTION_CHARACTERS])
        return [DetectedLanguage(language, round(100 * float(probability), 1)) for language, probability in ranked]
